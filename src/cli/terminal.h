/* SPDX-License-Identifier: Apache-2.0 */
/* A command, or a shell, in a sandbox on this terminal. */
#pragma once

#include "base/err.h"

/* `cmd` (for a shell) and `cwd` may be NULL. The exit status, as of a cli_fn. */
int terminal_run(const char *sandbox, const char *cmd, const char *cwd, struct err *err);
