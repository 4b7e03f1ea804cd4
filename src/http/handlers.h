/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that the table of routes names; the files h_<resource>.c hold them. */
#pragma once

#include "http/route.h"

/* h_meta.c */
http_handler_fn h_healthz, h_version, h_metrics, h_engines, h_me, h_tokens_list;

/* h_sandboxes.c */
http_handler_fn h_sandbox_create, h_sandbox_list, h_sandbox_get, h_sandbox_delete;

/* h_snapshots.c */
http_handler_fn h_snapshot_create, h_snapshot_list, h_snapshot_get, h_snapshot_delete,
	h_snapshot_export, h_snapshot_import, h_gc;
extern const struct http_upload h_snapshot_upload;

/* h_fork.c */
http_handler_fn h_fork, h_fork_tree, h_promote;

/* h_lifecycle.c */
http_handler_fn h_pause, h_resume, h_hibernate, h_wake, h_lifecycle_get, h_lifecycle_patch;
http_handler_fn h_network_get, h_network_patch;

/* h_events.c */
http_handler_fn h_events;

/* h_ports.c */
http_handler_fn h_ports_list, h_ports_add, h_ports_remove, h_preview;

/* h_proxy.c */
http_handler_fn h_proxy;
extern const struct http_upload h_proxy_upload;

/* h_exec.c */
http_handler_fn h_exec, h_exec_stream;

/* h_exec_ws.c */
http_handler_fn h_exec_ws;

/* h_terminal.c */
http_handler_fn h_exec_pty, h_ssh;

/* h_tunnel.c */
http_handler_fn h_tunnel;

/* h_logs.c */
http_handler_fn h_logs;

/* h_processes.c */
http_handler_fn h_process_list, h_process_get, h_process_wait, h_process_stream, h_process_stdin,
	h_process_signal;
extern const struct http_upload h_process_input;

/* h_repl.c */
http_handler_fn h_repl, h_repl_languages, h_session_create, h_session_list, h_session_run,
	h_session_delete, h_session_input, h_session_interrupt, h_session_restart;

/* h_fs.c */
http_handler_fn h_fs_read, h_fs_write, h_fs_remove, h_fs_dir, h_fs_stat, h_fs_mkdir, h_fs_move;
extern const struct http_upload h_fs_upload;

/* h_templates.c */
http_handler_fn h_template_list, h_template_get, h_template_delete;

/* h_usage.c */
http_handler_fn h_usage;

/* h_watch.c */
http_handler_fn h_fs_watch;

/* h_mcp.c */
http_handler_fn h_mcp, h_mcp_delete;
extern const struct http_upload h_mcp_upload;
