/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that clients are offered, from api/mcp_tools.def. Pure. */
#pragma once

#include <jansson.h>

enum mcp_tool {
#define X(tool, name, scope, ...) MCP_TOOL_##tool,
#include "mcp_tools.def"
#undef X
	_MCP_TOOL_MAX,
};

/* Which of them an endpoint has. */
enum mcp_scope {
	MCP_SCOPE_ANYWHERE, /* that of one sandbox: those about a sandbox, which is this one */
	MCP_SCOPE_DAEMON,   /* that of the daemon: all */
};

/* Their definitions: a new array. */
json_t *mcp_tools(enum mcp_scope scope);

/* The tool of that name at that endpoint, or -ENOENT. */
int mcp_tool_find(const char *name, enum mcp_scope scope);
