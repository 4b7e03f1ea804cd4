/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of both eras: what is taken, what is refused and in which words, and what goes back. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "mcp/methods.h"
#include "scratch.h"

#define META(version) \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version "\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define REQUEST(method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":{" params "}}"

static const struct mcp_headers none;

static struct mcp_message taken(const char *text, const struct mcp_headers *headers)
{
	struct mcp_message m = {0};
	struct mcp_answer answer = {0};

	if (mcp_message_read(text, strlen(text), headers, &m, &answer) < 0) {
		char *why = json_dumps(answer.body, 0);

		fail_msg("refused: %s: %s", text, why);
	}
	return m;
}

static void refused(const char *text, const struct mcp_headers *headers, int code)
{
	struct mcp_message m = {.method = "untouched"};
	struct mcp_answer answer = {0};
	json_t *error;

	if (mcp_message_read(text, strlen(text), headers, &m, &answer) != -EINVAL)
		fail_msg("taken: %s", text);
	assert_string_equal(m.method, "untouched");
	assert_int_equal(answer.status, 400);
	error = json_object_get(answer.body, "error");
	if (json_integer_value(json_object_get(error, "code")) != code)
		fail_msg("%s: %s", text, json_dumps(answer.body, 0));
	assert_true(json_string_length(json_object_get(error, "message")) > 0);
	json_decref(answer.body);
}

static void test_envelope(void **state)
{
	struct mcp_message m = taken("{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", &none);

	assert_null(m.id);
	assert_false(m.modern);
	mcp_message_done(&m);
	m = taken("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":\"x\"}", &none);
	assert_string_equal(json_string_value(m.id), "x");
	assert_null(m.params);
	mcp_message_done(&m);
	refused("", &none, MCP_PARSE_ERROR);
	refused("{", &none, MCP_PARSE_ERROR);
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"method\":\"b\"}", &none, MCP_PARSE_ERROR);
	refused("\xff", &none, MCP_PARSE_ERROR);
	refused("[]", &none, MCP_INVALID_REQUEST);
	refused("[{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1}]", &none, MCP_INVALID_REQUEST);
	refused("{}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"1.0\",\"method\":\"a\",\"id\":1}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"method\":1,\"id\":1}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":null}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1.5}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":[]}", &none, MCP_INVALID_REQUEST);
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1,\"params\":[]}", &none,
		MCP_INVALID_REQUEST);
}

static void test_number_of_values(void **state)
{
	static const char head[] = REQUEST("a", "\"l\":[");
	size_t lead = sizeof(head) - 1 - strlen("}}");
	_cleanup_free_ char *text = malloc(sizeof(head) + 3 * (size_t)LIMIT_JSON_VALUES);
	struct mcp_message m;

	assert_non_null(text);
	memcpy(text, head, lead);
	text[lead] = '\0';
	m = taken(strcat(text, "0]}}"), &none);
	mcp_message_done(&m);
	for (size_t i = 0; i < LIMIT_JSON_VALUES; i++)
		memcpy(text + lead + 2 * i, "0,", 2);
	text[lead + 2 * (size_t)LIMIT_JSON_VALUES] = '\0';
	refused(strcat(text, "0]}}"), &none, MCP_INVALID_REQUEST);
}

/* An error names the request that it is about, where that can be told. */
static void test_error_has_the_id(void **state)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":7}";
	struct mcp_message m;
	struct mcp_answer answer;

	assert_int_equal(mcp_message_read(text, strlen(text), &none, &m, &answer), -EINVAL);
	assert_int_equal(json_integer_value(json_object_get(answer.body, "id")), 7);
	json_decref(answer.body);
	assert_int_equal(mcp_message_read("{", 1, &none, &m, &answer), -EINVAL);
	assert_true(json_is_null(json_object_get(answer.body, "id")));
	json_decref(answer.body);
}

static void test_eras(void **state)
{
	static const struct mcp_headers legacy = {.version = "2025-06-18"},
					unknown = {.version = "1900-01-01"};
	static const struct mcp_headers modern = {MCP_MODERN, "tools/list", NULL};
	struct mcp_message m;

	m = taken(REQUEST("tools/list", ""), &none);
	assert_false(m.modern);
	mcp_message_done(&m);
	m = taken(REQUEST("tools/list", ""), &legacy);
	assert_false(m.modern);
	mcp_message_done(&m);
	m = taken(REQUEST("tools/list", META(MCP_MODERN)), &modern);
	assert_true(m.modern);
	mcp_message_done(&m);
	refused(REQUEST("tools/list", ""), &unknown, MCP_UNSUPPORTED_VERSION);
	refused(REQUEST("tools/list", META("1900-01-01")), &unknown, MCP_UNSUPPORTED_VERSION);
	refused(REQUEST("tools/list", META("1900-01-01")), &modern, MCP_HEADER_MISMATCH);
	refused(REQUEST("tools/list", META(MCP_MODERN)), &none, MCP_HEADER_MISMATCH);
	refused(REQUEST("tools/list", META(MCP_MODERN)), &legacy, MCP_HEADER_MISMATCH);
	/* A modern header over a body without what belongs to it. */
	refused(REQUEST("tools/list", ""), &modern, MCP_INVALID_PARAMS);
	refused(REQUEST("tools/list",
			"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" MCP_MODERN
			"\"}"),
		&modern, MCP_INVALID_PARAMS);
	refused(REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":1}"),
		&modern, MCP_INVALID_PARAMS);
}

static void test_headers_repeat_the_body(void **state)
{
	static const char call[] = REQUEST("tools/call", "\"name\":\"run_code\"," META(MCP_MODERN));
	static const char odd[] = REQUEST("tools/call", "\"name\":\"h\\u00e9\"," META(MCP_MODERN));
	static const struct {
		const char *text, *method, *name;
		int code; /* 0: taken */
	} cases[] = {
		{call, "tools/call", "run_code", 0},
		{call, "tools/call", "=?base64?cnVuX2NvZGU=?=", 0},
		{odd, "tools/call", "=?base64?aMOp?=", 0},
		{call, NULL, "run_code", MCP_HEADER_MISMATCH},
		{call, "tools/list", "run_code", MCP_HEADER_MISMATCH},
		{call, "Tools/Call", "run_code", MCP_HEADER_MISMATCH},
		{call, "tools/call", NULL, MCP_HEADER_MISMATCH},
		{call, "tools/call", "run_cod", MCP_HEADER_MISMATCH},
		{call, "tools/call", "=?base64?cnVuX2NvZGU?=", MCP_HEADER_MISMATCH},
		{call, "tools/call", "=?base64?=", MCP_HEADER_MISMATCH},
		{call, "tools/call",
			"=?base64?"
			"?=",
			MCP_HEADER_MISMATCH},
		{call, "tools/call", "=?BASE64?cnVuX2NvZGU=?=", MCP_HEADER_MISMATCH},
		{REQUEST("tools/call", META(MCP_MODERN)), "tools/call", "x", MCP_INVALID_PARAMS},
		{REQUEST("resources/read", "\"uri\":\"a:b\"," META(MCP_MODERN)), "resources/read",
			"a:b", 0},
		{REQUEST("resources/read", "\"uri\":\"a:b\"," META(MCP_MODERN)), "resources/read",
			NULL, MCP_HEADER_MISMATCH},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct mcp_headers headers = {MCP_MODERN, cases[i].method, cases[i].name};

		if (cases[i].code) {
			refused(cases[i].text, &headers, cases[i].code);
		} else {
			struct mcp_message m = taken(cases[i].text, &headers);

			mcp_message_done(&m);
		}
	}
}

/* The answer to a method without sandboxes, or an error's code; the answer's HTTP status. */
static json_t *answered(const char *method, const char *params, bool modern, int status)
{
	const struct mcp_headers headers = {modern ? MCP_MODERN : NULL, method, NULL};
	char text[512];
	struct mcp_message m;
	struct mcp_answer answer;

	(void)snprintf(text, sizeof(text), REQUEST("%s", "%s"), method, params);
	m = taken(text, &headers);
	assert_int_equal(mcp_answer(&m, MCP_SCOPE_DAEMON, &answer), MCP_DONE);
	assert_int_equal(answer.status, status);
	assert_int_equal(json_integer_value(json_object_get(answer.body, "id")), 7);
	mcp_message_done(&m);
	return answer.body;
}

static int code_of(json_t *body)
{
	int code = (int)json_integer_value(json_object_get(json_object_get(body, "error"), "code"));

	json_decref(body);
	return code;
}

static void negotiated(const char *wanted, const char *spoken)
{
	char params[64];
	json_t *body, *result;

	(void)snprintf(params, sizeof(params), "\"protocolVersion\":\"%s\"", wanted);
	body = answered("initialize", params, false, 200);
	result = json_object_get(body, "result");
	assert_string_equal(json_string_value(json_object_get(result, "protocolVersion")), spoken);
	assert_true(
		json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools")));
	assert_null(json_object_get(result, "resultType"));
	json_decref(body);
}

static void test_initialize(void **state)
{
	negotiated("2025-03-26", "2025-03-26");
	negotiated("2025-06-18", "2025-06-18");
	negotiated("2025-11-25", "2025-11-25");
	negotiated("2024-11-05", "2025-11-25");
	negotiated(MCP_MODERN, "2025-11-25"); /* which has no handshake */
	negotiated("", "2025-11-25");
}

static void test_modern_results(void **state)
{
	json_t *body = answered("server/discover", META(MCP_MODERN), true, 200);
	json_t *result = json_object_get(body, "result"), *meta;

	assert_string_equal(json_string_value(json_object_get(result, "resultType")), "complete");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(result, "supportedVersions"), 0)),
		MCP_MODERN);
	assert_true(json_is_integer(json_object_get(result, "ttlMs")));
	meta = json_object_get(result, "_meta");
	assert_true(json_is_object(json_object_get(meta, "io.modelcontextprotocol/serverInfo")));
	json_decref(body);
}

static void test_methods_of_an_era(void **state)
{
	static const char *const gone[] = {"initialize", "ping", "logging/setLevel",
		"resources/subscribe", "nonsense"};

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		assert_int_equal(code_of(answered(gone[i], META(MCP_MODERN), true, 404)),
			MCP_NO_METHOD);
	assert_int_equal(code_of(answered("ping", "", false, 200)), 0);
	assert_int_equal(code_of(answered("server/discover", "", false, 200)), MCP_NO_METHOD);
	assert_int_equal(code_of(answered("nonsense", "", false, 200)), MCP_NO_METHOD);
}

static void test_notifications_get_no_answer(void **state)
{
	struct mcp_message m =
		taken("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &none);
	struct mcp_answer answer;

	assert_int_equal(mcp_answer(&m, MCP_SCOPE_DAEMON, &answer), MCP_DONE);
	assert_int_equal(answer.status, 202);
	assert_null(answer.body);
	mcp_message_done(&m);
}

static void test_progress_is_for_who_asks(void **state)
{
	struct mcp_message m =
		taken(REQUEST("tools/call", "\"_meta\":{\"progressToken\":\"t\"}"), &none);
	json_t *progress = mcp_progress(&m, 5, "half"), *params;

	params = json_object_get(progress, "params");
	assert_null(json_object_get(progress, "id"));
	assert_string_equal(json_string_value(json_object_get(params, "progressToken")), "t");
	assert_int_equal(json_integer_value(json_object_get(params, "progress")), 5);
	json_decref(progress);
	mcp_message_done(&m);
	m = taken(REQUEST("tools/call", "\"_meta\":{\"progressToken\":{}}"), &none);
	assert_null(mcp_progress(&m, 5, "half"));
	mcp_message_done(&m);
	m = taken(REQUEST("tools/call", ""), &none);
	assert_null(mcp_progress(&m, 5, "half"));
	mcp_message_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_envelope),
		cmocka_unit_test(test_number_of_values),
		cmocka_unit_test(test_error_has_the_id),
		cmocka_unit_test(test_eras),
		cmocka_unit_test(test_headers_repeat_the_body),
		cmocka_unit_test(test_initialize),
		cmocka_unit_test(test_modern_results),
		cmocka_unit_test(test_methods_of_an_era),
		cmocka_unit_test(test_notifications_get_no_answer),
		cmocka_unit_test(test_progress_is_for_who_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
