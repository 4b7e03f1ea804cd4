/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that clients are offered, from api/mcp_tools.def. */
#include "mcp/tools.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	enum mcp_scope scope;
	const char *definition; /* JSON: what else there is to say */
} tools[] = {
#define X(tool, name, scope, ...) [MCP_TOOL_##tool] = {name, MCP_SCOPE_##scope, #__VA_ARGS__},
#include "mcp_tools.def"
#undef X
};

static json_t *definition(enum mcp_tool tool, enum mcp_scope scope)
{
	json_t *json = json_pack("{s:s}", "name", tools[tool].name);
	json_t *rest = json_loads(tools[tool].definition, 0, NULL);
	json_t *input = json_object_get(rest, "inputSchema");

	assert(rest);
	if (scope == MCP_SCOPE_ANYWHERE)
		(void)json_object_del(json_object_get(input, "properties"), "sandbox_id");
	(void)json_object_update_new(json, rest);
	return json;
}

json_t *mcp_tools(enum mcp_scope scope)
{
	json_t *list = json_array();

	for (int i = 0; i < _MCP_TOOL_MAX; i++) {
		if (tools[i].scope <= scope)
			(void)json_array_append_new(list, definition((enum mcp_tool)i, scope));
	}
	return list;
}

int mcp_tool_find(const char *name, enum mcp_scope scope)
{
	for (int i = 0; i < _MCP_TOOL_MAX; i++) {
		if (tools[i].scope <= scope && strcmp(name, tools[i].name) == 0)
			return i;
	}
	return -ENOENT;
}
