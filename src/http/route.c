/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, and the search in it. */
#include "http/route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http/handlers.h"

#define SB "/v1/sandboxes/{id}"
#define SESSION SB "/repl/sessions/{sid}"
#define PROCESS SB "/processes/{pid}"

/* The first row that fits counts. Rows without a handler are parts of the API still to be built. */
static const struct route routes[] = {
	{"GET", "/healthz", h_healthz, .public = true},
	{"GET", "/version", h_version, .public = true},
	{"GET", "/metrics", h_metrics, .public = true},

	{"POST", "/v1/sandboxes", h_sandbox_create},
	{"GET", "/v1/sandboxes", h_sandbox_list},
	{"GET", SB, h_sandbox_get},
	{"DELETE", SB, h_sandbox_delete},

	{"POST", SB "/exec", h_exec},
	{"POST", SB "/exec/stream", h_exec_stream},
	{"GET", SB "/exec/pty", h_exec_pty},
	{"GET", SB "/exec/ws", h_exec_ws},

	{"GET", SB "/processes", h_process_list},
	{"GET", PROCESS, h_process_get},
	{"POST", PROCESS "/wait", h_process_wait},
	{"GET", PROCESS "/stream", h_process_stream},
	{"POST", PROCESS "/stdin", h_process_stdin, &h_process_input},
	{"POST", PROCESS "/signal", h_process_signal},

	{"POST", SB "/repl", h_repl},
	{"GET", "/v1/repl/languages", h_repl_languages},
	{"POST", SB "/repl/sessions", h_session_create},
	{"GET", SB "/repl/sessions", h_session_list},
	{"DELETE", SESSION, h_session_delete},
	{"POST", SESSION "/run", h_session_run},
	{"POST", SESSION "/interrupt", h_session_interrupt},
	{"POST", SESSION "/restart", h_session_restart},
	{"POST", SESSION "/input", h_session_input},

	{"GET", SB "/fs", h_fs_read},
	{"PUT", SB "/fs", h_fs_write, &h_fs_upload},
	{"DELETE", SB "/fs", h_fs_remove},
	{"GET", SB "/fs/dir", h_fs_dir},
	{"GET", SB "/fs/stat", h_fs_stat},
	{"POST", SB "/fs/mkdir", h_fs_mkdir},
	{"POST", SB "/fs/move", h_fs_move},
	{"GET", SB "/fs/watch", h_fs_watch},

	{"POST", SB "/snapshots", h_snapshot_create},
	{"GET", "/v1/snapshots", h_snapshot_list},
	{"GET", "/v1/snapshots/{sid}", h_snapshot_get},
	{"DELETE", "/v1/snapshots/{sid}", h_snapshot_delete},
	{"GET", "/v1/snapshots/{sid}/export", h_snapshot_export},
	{"POST", "/v1/snapshots/import", h_snapshot_import, &h_snapshot_upload},
	{"POST", "/v1/gc", h_gc},

	{"POST", SB "/fork", h_fork},
	{"POST", SB "/fork-tree", h_fork_tree},
	{"POST", SB "/promote", h_promote},

	{"POST", SB "/pause", h_pause},
	{"POST", SB "/resume", h_resume},
	{"POST", SB "/hibernate", h_hibernate},
	{"POST", SB "/stop", h_hibernate},
	{"POST", SB "/wake", h_wake},
	{"POST", SB "/start", h_wake},
	{"GET", SB "/lifecycle", h_lifecycle_get},
	{"PATCH", SB "/lifecycle", h_lifecycle_patch},
	{"GET", SB "/network", h_network_get},
	{"PATCH", SB "/network", h_network_patch},

	{"GET", SB "/events", h_events},
	{"GET", SB "/logs", h_logs},
	{"POST", SB "/mcp", h_mcp, &h_mcp_upload},
	{"GET", SB "/metrics", h_usage},
	{"GET", SB "/ports", h_ports_list},
	{"POST", SB "/ports", h_ports_add},
	{"DELETE", SB "/ports/{port}", h_ports_remove},
	{"POST", SB "/preview", h_preview},
	{"POST", SB "/preview-token", h_preview},
	{"*", SB "/proxy/{port}", h_proxy, &h_proxy_upload, .public = true}, /* access.h */
	{"GET", SB "/ports/{port}/tunnel", h_tunnel},
	{"GET", SB "/ssh", h_ssh},

	{"GET", "/v1/templates", h_template_list},
	{"*", "/v1/templates/build"},
	{"*", "/v1/templates/builds/*"},
	{"GET", "/v1/templates/{name}", h_template_get},
	{"DELETE", "/v1/templates/{name}", h_template_delete},

	{"GET", "/v1/engines", h_engines},
	{"GET", "/v1/me", h_me},
	{"GET", "/v1/me/tokens", h_tokens_list},
	{"*", "/v1/me/tokens/*"},

	{"POST", "/mcp", h_mcp, &h_mcp_upload},
	{"DELETE", "/mcp", h_mcp_delete},
	{"*", "/v1/apps/*"},
	{"*", "/v1/databases/*"},
	{"*", "/v1/functions/*"},
	{"POST", "/v1/mcp", h_mcp, &h_mcp_upload},
	{"DELETE", "/v1/mcp", h_mcp_delete},
	{"*", "/v1/p/{token}", h_proxy, &h_proxy_upload, .public = true}, /* access.h */
	{"*", "/v1/preview-repos/*"},
	{"*", "/v1/repos/*"},
	{"*", "/v1/schedules/*"},
	{"*", "/v1/volumes/*"},
};

static bool matches(const char *pattern, const struct url *url, const char *params[HTTP_PARAMS_MAX])
{
	size_t i = 0, n_params = 0;

	for (const char *p = pattern; *p; i++) {
		const char *end = strchrnul(++p, '/'); /* *p was the slash */
		size_t len = (size_t)(end - p);

		if (*p == '*')
			return true;
		if (i == url->n_segments)
			return false;
		if (*p == '{') {
			if (!*url->segments[i])
				return false;
			assert(n_params < HTTP_PARAMS_MAX);
			params[n_params++] = url->segments[i];
		} else if (strncmp(url->segments[i], p, len) != 0 || url->segments[i][len]) {
			return false;
		}
		p = end;
	}
	return i == url->n_segments;
}

static void add_method(char allow[ROUTE_ALLOW_SIZE], const char *method)
{
	size_t len = strlen(allow);

	(void)snprintf(allow + len, ROUTE_ALLOW_SIZE - len, "%s%s%s", len ? ", " : "", method,
		strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

int route_find(const char *method, const struct url *url, const struct route **ret,
	const char *ret_params[HTTP_PARAMS_MAX], char allow[ROUTE_ALLOW_SIZE], struct err *err)
{
	const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;

	allow[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		const struct route *route = &routes[i];
		const char *params[HTTP_PARAMS_MAX] = {0};

		if (!matches(route->pattern, url, params))
			continue;
		if (strcmp(route->method, "*") == 0 || strcmp(route->method, wanted) == 0) {
			memcpy(ret_params, params, sizeof(params));
			*ret = route;
			return 0;
		}
		add_method(allow, route->method);
	}
	if (allow[0])
		return err_set(err, ERR_METHOD, -EPERM, "this path takes only %s", allow);
	return err_set(err, ERR_NOT_FOUND, -ENOENT, "not found: there is no such path");
}
