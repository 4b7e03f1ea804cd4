/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack template build`: works on this machine's folder of templates, needs no daemon. */
#pragma once

#include "cli/cli.h"

cli_fn cmd_template_build;
