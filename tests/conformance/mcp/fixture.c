/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the public conformance suite of MCP wants of a server, for the daemon that this is linked into (docs/mcp.md, "Tests").
 *
 * The suite calls tools of its own names. Each stands here for a call of a real tool, in a real sandbox: the message is rewritten
 * when it has been read and checked, and from there on the daemon's own code does everything. Resources that the suite reads by
 * name are given here, encoded as files are. No key is asked for. What pandastack does not offer at all (prompts, sampling, …) is not made up.
 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "base/url.h"
#include "http/auth.h"
#include "mcp/content.h"
#include "mcp/methods.h"

static const struct {
	const char *name, *tool, *arguments;
} stand_ins[] = {
	{"test_simple_text", "run_command",
		"{'command': 'echo This is a simple text response for testing.'}"},
	{"test_image_content", "run_code",
		"{'code': 'from PIL import Image\\nImage.new(\\'RGB\\', (1, 1))'}"},
	{"test_embedded_resource", "read_file", "{'path': '/bin/true'}"},
	{"test_multiple_content_types", "run_code",
		"{'code': 'from PIL import Image\\nfrom IPython.display import HTML\\n"
		"print(\\'text\\')\\ndisplay(Image.new(\\'RGB\\', (1, 1)), HTML(\\'page\\'))'}"},
	{"test_error_handling", "run_code", "{'code': 'raise ValueError(\\'on purpose\\')'}"},
	{"test_tool_with_progress", "run_code",
		"{'code': 'import time\\nfor i in range(5):\\n"
		"    print(i, flush=True)\\n    time.sleep(0.4)'}"},
	/* The suite waits for these for half a second, which no new sandbox is made in. */
	{"test_streaming_elicitation", "list_sandboxes", "{}"},
	{"test_logging_tool", "list_sandboxes", "{}"},
};

/* Listed only: whether all of a schema arrives. */
static const char schema_tool[] =
	"{'name': 'json_schema_2020_12_tool', 'description': 'Tool with JSON Schema 2020-12 features', 'inputSchema': {"
	"'$schema': 'https://json-schema.org/draft/2020-12/schema', 'type': 'object', "
	"'$defs': {'address': {'$anchor': 'addressDef', 'type': 'object', "
	"'properties': {'street': {'type': 'string'}, 'city': {'type': 'string'}}}}, "
	"'properties': {'name': {'type': 'string'}, 'address': {'$ref': '#/$defs/address'}, "
	"'contactMethod': {'type': 'string', 'enum': ['phone', 'email']}, "
	"'phone': {'type': 'string'}, 'email': {'type': 'string'}}, "
	"'allOf': [{'anyOf': [{'required': ['phone']}, {'required': ['email']}]}], "
	"'if': {'properties': {'contactMethod': {'const': 'phone'}}, 'required': ['contactMethod']}, "
	"'then': {'required': ['phone']}, 'else': {'required': ['email']}, "
	"'additionalProperties': false}}";

/* JSON that is written with ' for ", and \' for itself. */
static json_t *json_of(const char *text)
{
	_cleanup_free_ char *json = xcalloc(strlen(text) + 1, 1);
	char *to = json;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] == '\'')
			*to++ = *++text;
		else
			*to++ = *text == '\'' ? '"' : *text;
	}
	return json_loads(json, 0, NULL);
}

static void rewrite_call(json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "name"));

	for (size_t i = 0; name && i < ARRAY_SIZE(stand_ins); i++) {
		if (strcmp(name, stand_ins[i].name) != 0)
			continue;
		(void)json_object_set_new(params, "name", json_string(stand_ins[i].tool));
		(void)json_object_set_new(params, "arguments", json_of(stand_ins[i].arguments));
		return;
	}
}

static void list_tools(json_t *tools)
{
	for (size_t i = 0; i < ARRAY_SIZE(stand_ins); i++)
		(void)json_array_append_new(tools,
			json_pack("{s:s, s:s+, s:{s:s}}", "name", stand_ins[i].name, "description",
				"Stands for ", stand_ins[i].tool, "inputSchema", "type", "object"));
	(void)json_array_append_new(tools, json_of(schema_tool));
}

/* ---- resources ---- */

static const char static_text[] = "test://static-text", static_binary[] = "test://static-binary";
static const char png[] = "\x89PNG\r\n\x1a\n";

static void list_resources(json_t *resources)
{
	(void)json_array_append_new(resources,
		json_pack("{s:s, s:s, s:s}", "uri", static_text, "name", "text", "mimeType",
			"text/plain"));
	(void)json_array_append_new(resources,
		json_pack("{s:s, s:s, s:s}", "uri", static_binary, "name", "binary", "mimeType",
			"image/png"));
}

static json_t *read_resource(const char *uri)
{
	static const char lead[] = "test://template/", tail[] = "/data";
	size_t skip = sizeof(lead) - 1, end = strlen(uri) - MIN(strlen(uri), sizeof(tail) - 1);
	char text[256];
	int id = (int)MIN(end - MIN(end, skip), (size_t)64);

	if (strcmp(uri, static_text) == 0)
		return mcp_resource(uri, "This is the content of the static text resource.", 48);
	if (strcmp(uri, static_binary) == 0)
		return mcp_resource(uri, png, sizeof(png)); /* with its NUL: no text */
	if (!str_starts_with(uri, lead) || strcmp(uri + end, tail) != 0)
		return NULL;
	(void)snprintf(text, sizeof(text),
		"{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}", id,
		uri + skip, id, uri + skip);
	return mcp_resource(uri, text, strlen(text));
}

/* ---- in place of functions of the daemon's, by the linker's --wrap ---- */

/* The suite can't be told a key. */
bool __wrap_auth_check(struct auth *auth, const char *key);
const char *__real_url_query(const struct url *url, const char *key);
const char *__wrap_url_query(const struct url *url, const char *key);

bool __wrap_auth_check(struct auth *auth, const char *key)
{
	return true;
}

const char *__wrap_url_query(const struct url *url, const char *key)
{
	const char *value = __real_url_query(url, key);

	return value || strcmp(key, "access_token") != 0 ? value : "any";
}

enum mcp_todo __real_mcp_answer(const struct mcp_message *m, enum mcp_scope scope,
	struct mcp_answer *answer);
enum mcp_todo __wrap_mcp_answer(const struct mcp_message *m, enum mcp_scope scope,
	struct mcp_answer *answer);

enum mcp_todo __wrap_mcp_answer(const struct mcp_message *m, enum mcp_scope scope,
	struct mcp_answer *answer)
{
	const char *uri = json_string_value(json_object_get(m->params, "uri"));
	enum mcp_todo todo = __real_mcp_answer(m, scope, answer);
	json_t *result, *contents;

	if (todo == MCP_CALL)
		rewrite_call(m->params);
	if (todo == MCP_READ && uri && (contents = read_resource(uri))) {
		result = json_pack("{s:[o], s:i, s:s}", "contents", contents, "ttlMs", 0,
			"cacheScope", "private");
		*answer = (struct mcp_answer){200, mcp_result(m, result)};
		return MCP_DONE;
	}
	if (todo != MCP_DONE || !m->id)
		return todo;
	result = json_object_get(answer->body, "result");
	if (strcmp(m->method, "tools/list") == 0)
		list_tools(json_object_get(result, "tools"));
	if (strcmp(m->method, "resources/list") == 0)
		list_resources(json_object_get(result, "resources"));
	return todo;
}
