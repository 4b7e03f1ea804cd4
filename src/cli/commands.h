/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of this folder; the contract is that of cli_fn (cli.h). */
#pragma once

#include "cli/cli.h"

cli_fn cmd_run;
cli_fn cmd_sandbox_create;
cli_fn cmd_sandbox_list;
cli_fn cmd_sandbox_get;
cli_fn cmd_sandbox_exec;
cli_fn cmd_sandbox_ssh;
cli_fn cmd_sandbox_ps;
cli_fn cmd_sandbox_logs;
cli_fn cmd_sandbox_events;
cli_fn cmd_sandbox_cp;
cli_fn cmd_sandbox_rm;
cli_fn cmd_sandbox_fork;
cli_fn cmd_sandbox_network;
cli_fn cmd_sandbox_pause;
cli_fn cmd_sandbox_resume;
cli_fn cmd_sandbox_hibernate;
cli_fn cmd_sandbox_wake;
cli_fn cmd_ports;
cli_fn cmd_port_forward;
cli_fn cmd_snapshot_create;
cli_fn cmd_snapshot_list;
cli_fn cmd_snapshot_rm;
cli_fn cmd_snapshot_export;
cli_fn cmd_snapshot_import;
cli_fn cmd_gc;
cli_fn cmd_mcp;
cli_fn cmd_template_list;
cli_fn cmd_template_rm;
cli_fn cmd_engines;
cli_fn cmd_version;
