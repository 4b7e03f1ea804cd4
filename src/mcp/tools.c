/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that clients are offered, from api/mcp_tools.def. */
#include "mcp/tools.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const struct {
	enum mcp_scope scope;
	const char *definition; /* JSON */
} tools[] = {
#define X(tool, scope, ...) [MCP_TOOL_##tool] = {MCP_SCOPE_##scope, #__VA_ARGS__},
#include "mcp_tools.def"
#undef X
};

static json_t *definition(enum mcp_tool tool, enum mcp_scope scope)
{
	json_t *json = json_loads(tools[tool].definition, 0, NULL);
	json_t *input = json_object_get(json, "inputSchema");

	assert(json);
	if (scope == MCP_SCOPE_ANYWHERE)
		(void)json_object_del(json_object_get(input, "properties"), "sandbox_id");
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
	int found = -ENOENT;

	for (int i = 0; i < _MCP_TOOL_MAX && found < 0; i++) {
		json_t *json = definition((enum mcp_tool)i, scope);

		if (tools[i].scope <= scope &&
			strcmp(name, json_string_value(json_object_get(json, "name"))) == 0)
			found = i;
		json_decref(json);
	}
	return found;
}
