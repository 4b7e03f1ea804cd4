/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of this folder; the contract is that of cli_fn (cli.h). */
#pragma once

#include "cli/cli.h"

cli_fn cmd_run;
cli_fn cmd_sandbox_create;
cli_fn cmd_sandbox_list;
cli_fn cmd_sandbox_get;
cli_fn cmd_sandbox_exec;
cli_fn cmd_sandbox_cp;
cli_fn cmd_sandbox_rm;
cli_fn cmd_template_list;
cli_fn cmd_template_rm;
cli_fn cmd_engines;
cli_fn cmd_version;
