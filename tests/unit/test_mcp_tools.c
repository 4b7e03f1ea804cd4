/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tools: each a whole definition, and what the endpoint of one sandbox has of them. */
#include <errno.h>
#include <string.h>

#include "mcp/tools.h"
#include "scratch.h"

static const char *text(const json_t *tool, const char *key)
{
	return json_string_value(json_object_get(tool, key));
}

/* An object's schema, whose required members are described. */
static void check_schema(const char *name, json_t *schema)
{
	json_t *properties = json_object_get(schema, "properties"), *member;
	size_t i;

	if (strcmp(text(schema, "type"), "object") != 0)
		fail_msg("%s: a schema is of no object", name);
	json_array_foreach(json_object_get(schema, "required"), i, member) {
		if (!json_object_get(properties, json_string_value(member)))
			fail_msg("%s: %s is required and not described", name,
				json_string_value(member));
	}
}

static void test_definitions_are_whole(void **state)
{
	json_t *tools = mcp_tools(MCP_SCOPE_DAEMON), *tool;
	size_t i;

	assert_int_equal(json_array_size(tools), _MCP_TOOL_MAX);
	json_array_foreach(tools, i, tool) {
		const char *name = text(tool, "name");

		assert_int_equal(mcp_tool_find(name, MCP_SCOPE_DAEMON), i);
		assert_non_null(text(tool, "title"));
		assert_non_null(text(tool, "description"));
		check_schema(name, json_object_get(tool, "inputSchema"));
		check_schema(name, json_object_get(tool, "outputSchema"));
	}
	json_decref(tools);
}

static void test_one_sandbox(void **state)
{
	json_t *tools = mcp_tools(MCP_SCOPE_ANYWHERE), *tool;
	size_t i;

	assert_in_range(json_array_size(tools), 1, _MCP_TOOL_MAX - 1);
	json_array_foreach(tools, i, tool) {
		json_t *input = json_object_get(tool, "inputSchema");

		assert_null(json_object_get(json_object_get(input, "properties"), "sandbox_id"));
		assert_true(mcp_tool_find(text(tool, "name"), MCP_SCOPE_ANYWHERE) >= 0);
	}
	json_decref(tools);
	assert_int_equal(mcp_tool_find("delete_sandbox", MCP_SCOPE_ANYWHERE), -ENOENT);
	assert_int_equal(mcp_tool_find("delete_sandbox", MCP_SCOPE_DAEMON),
		MCP_TOOL_DELETE_SANDBOX);
	assert_int_equal(mcp_tool_find("", MCP_SCOPE_DAEMON), -ENOENT);
	assert_int_equal(mcp_tool_find("RUN_CODE", MCP_SCOPE_DAEMON), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definitions_are_whole),
		cmocka_unit_test(test_one_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
