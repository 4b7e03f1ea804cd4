/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the Model Context Protocol: what a client sent, checked, and what it gets. */
#include "mcp/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/json_count.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "version.h"

#define META "io.modelcontextprotocol/"

/* The header came with the second of these, so a client that does not send it may be older. */
static const char *const versions[] = {MCP_MODERN, "2025-11-25", "2025-06-18", "2025-03-26"};
#define NEWEST_LEGACY versions[1]
#define WITHOUT_HEADER versions[3]

static bool is_known(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (strcmp(version, versions[i]) == 0)
			return true;
	}
	return false;
}

json_t *mcp_versions(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		(void)json_array_append_new(list, json_string(versions[i]));
	return list;
}

const char *mcp_negotiate(const char *wanted)
{
	bool legacy = wanted && is_known(wanted) && strcmp(wanted, MCP_MODERN) != 0;

	return legacy ? wanted : NEWEST_LEGACY;
}

json_t *mcp_error(const json_t *id, enum mcp_code code, const char *text, json_t *data)
{
	return json_pack("{s:s, s:O?, s:{s:i, s:s, s:o*}}", "jsonrpc", "2.0", "id", id, "error",
		"code", (int)code, "message", text, "data", data);
}

static json_t *meta_of(const struct mcp_message *m, const char *key)
{
	return json_object_get(json_object_get(m->params, "_meta"), key);
}

json_t *mcp_result(const struct mcp_message *m, json_t *result)
{
	json_t *server;

	if (m->modern) {
		server = json_pack("{s:{s:s, s:s}}", META "serverInfo", "name", "pandastack",
			"version", PANDASTACK_VERSION);
		(void)json_object_set_new(result, "resultType", json_string("complete"));
		(void)json_object_set_new(result, "_meta", server);
	}
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", m->id, "result", result);
}

json_t *mcp_progress(const struct mcp_message *m, uint64_t progress, const char *text)
{
	json_t *token = meta_of(m, "progressToken");

	if (!json_is_string(token) && !json_is_integer(token))
		return NULL;
	return json_pack("{s:s, s:s, s:{s:O, s:I, s:s}}", "jsonrpc", "2.0", "method",
		"notifications/progress", "params", "progressToken", token, "progress",
		(json_int_t)progress, "message", text);
}

/* ---- reading ---- */

static int refuse(const struct mcp_message *m, struct mcp_answer *answer, enum mcp_code code,
	const char *text, json_t *data)
{
	*answer = (struct mcp_answer){400, mcp_error(m->id, code, text, data)};
	return -EINVAL;
}

static int refuse_long(const struct mcp_message *m, struct mcp_answer *answer)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "the message has too many values: at most %d are taken",
		LIMIT_JSON_VALUES);
	return refuse(m, answer, MCP_INVALID_REQUEST, text, NULL);
}

static int read_envelope(struct mcp_message *m, struct mcp_answer *answer)
{
	const char *rpc = json_string_value(json_object_get(m->root, "jsonrpc"));
	json_t *id = json_object_get(m->root, "id");

	if (json_is_array(m->root))
		return refuse(m, answer, MCP_INVALID_REQUEST,
			"batches are not taken: send each message by itself", NULL);
	if (id && !json_is_string(id) && !json_is_integer(id))
		return refuse(m, answer, MCP_INVALID_REQUEST, "`id` must be a string or an integer",
			NULL);
	m->id = id;
	m->method = json_string_value(json_object_get(m->root, "method"));
	m->params = json_object_get(m->root, "params");
	if (!rpc || strcmp(rpc, "2.0") != 0 || !m->method)
		return refuse(m, answer, MCP_INVALID_REQUEST,
			"not a request of JSON-RPC: an object with \"jsonrpc\": \"2.0\" and a "
			"`method` is wanted",
			NULL);
	if (m->params && !json_is_object(m->params))
		return refuse(m, answer, MCP_INVALID_REQUEST, "`params` must be an object", NULL);
	return 0;
}

/* Whether a header that may be in Base64 (Streamable HTTP, "Value Encoding") says this. */
static bool header_says(const char *header, const char *value)
{
	static const char lead[] = "=?base64?", tail[] = "?=";
	size_t len = strlen(header), want = strlen(value), got = 0, skip = sizeof(lead) - 1;
	_cleanup_free_ char *text = NULL;

	if (!str_starts_with(header, lead) || len < skip + 2 || strcmp(header + len - 2, tail) != 0)
		return strcmp(header, value) == 0;
	text = malloc(len);
	return text && base64_decode(header + skip, len - skip - 2, text, len, &got) == 0 &&
		got == want && memcmp(text, value, want) == 0;
}

/* What the header Mcp-Name repeats of this method's parameters; NULL: nothing. */
static const char *named_by(const char *method)
{
	if (strcmp(method, "tools/call") == 0 || strcmp(method, "prompts/get") == 0)
		return "name";
	return strcmp(method, "resources/read") == 0 ? "uri" : NULL;
}

static int check_modern(const struct mcp_message *m, const struct mcp_headers *headers,
	struct mcp_answer *answer)
{
	const char *key = named_by(m->method);
	const char *name = key ? json_string_value(json_object_get(m->params, key)) : NULL;

	if (!meta_of(m, META "protocolVersion") ||
		!json_is_object(meta_of(m, META "clientCapabilities")))
		return refuse(m, answer, MCP_INVALID_PARAMS,
			"`_meta` must have " META "protocolVersion and " META "clientCapabilities",
			NULL);
	if (!headers->method || strcmp(headers->method, m->method) != 0)
		return refuse(m, answer, MCP_HEADER_MISMATCH,
			"the header Mcp-Method must be the request's `method`", NULL);
	if (key && !name)
		return refuse(m, answer, MCP_INVALID_PARAMS,
			"`params` must say what is meant: `name`, or the `uri` of a resource",
			NULL);
	if (name && (!headers->name || !header_says(headers->name, name)))
		return refuse(m, answer, MCP_HEADER_MISMATCH,
			"the header Mcp-Name must be the `name` or `uri` of the request's `params`",
			NULL);
	return 0;
}

static int check_version(struct mcp_message *m, const struct mcp_headers *headers,
	struct mcp_answer *answer)
{
	json_t *meta = meta_of(m, META "protocolVersion");
	const char *said = json_string_value(meta), *version = said;

	if (meta && !said)
		return refuse(m, answer, MCP_INVALID_PARAMS,
			META "protocolVersion must be a string", NULL);
	if (said && (!headers->version || strcmp(said, headers->version) != 0))
		return refuse(m, answer, MCP_HEADER_MISMATCH,
			"the header MCP-Protocol-Version must be the version in `_meta`", NULL);
	if (!version)
		version = headers->version ? headers->version : WITHOUT_HEADER;
	if (!is_known(version))
		return refuse(m, answer, MCP_UNSUPPORTED_VERSION,
			"this server does not speak that version of the protocol",
			json_pack("{s:o, s:s}", "supported", mcp_versions(), "requested", version));
	m->modern = strcmp(version, MCP_MODERN) == 0;
	return m->modern ? check_modern(m, headers, answer) : 0;
}

int mcp_message_read(const char *text, size_t len, const struct mcp_headers *headers,
	struct mcp_message *ret, struct mcp_answer *answer)
{
	struct mcp_message m = {0};
	int r;

	if (json_count_values(text, len) > LIMIT_JSON_VALUES)
		return refuse_long(&m, answer);
	m.root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	if (!m.root)
		return refuse(&m, answer, MCP_PARSE_ERROR, "the message is not valid JSON", NULL);
	r = read_envelope(&m, answer);
	/* The specification does not say which headers a notification has. */
	if (r == 0 && m.id)
		r = check_version(&m, headers, answer);
	if (r < 0)
		mcp_message_done(&m);
	else
		*ret = m;
	return r;
}

void mcp_message_done(struct mcp_message *m)
{
	json_decref(m->root);
	*m = (struct mcp_message){0};
}
