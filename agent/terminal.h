/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals of commands. */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * A terminal of the size in `size` (`rows`, `cols`), which belongs to `owner`. *ret_ours does not block and gives -EIO once nobody has
 * *ret_theirs any more; both are the caller's.
 */
int terminal_open(const json_t *size, uid_t owner, int *ret_ours, int *ret_theirs, struct err *err);

/* Another size; what runs in it is told by SIGWINCH. Sizes that are none are ignored. */
void terminal_resize(int ours_fd, const json_t *size);
