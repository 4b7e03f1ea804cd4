/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as answers: the envelope, the words that clients must not see. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/http.h"

/* The body of the answer to that failure. */
static json_t *error_body(const struct err *err, json_t *details, int *ret_status)
{
	struct http_resp resp = {.details = details};
	struct http_req req = {.id = "r1"};
	json_t *body;

	http_resp_error(&resp, &req, err);
	body = json_loadb(resp.data, resp.len, 0, NULL);
	*ret_status = resp.status;
	http_resp_done(&resp);
	assert_non_null(body);
	return body;
}

static const char *text(const json_t *obj, const char *key)
{
	return json_string_value(json_object_get(obj, key));
}

static void test_envelope(void **state)
{
	struct err err = {.kind = ERR_TIMEOUT, .msg = "command timeout after 1s"};
	int status;
	json_t *body = error_body(&err, json_pack("{s:s}", "stdout", "x"), &status);

	assert_int_equal(status, 504);
	assert_string_equal(text(body, "error"), "command timeout after 1s");
	assert_string_equal(text(body, "code"), "timeout");
	assert_string_equal(text(body, "request_id"), "r1");
	assert_string_equal(text(json_object_get(body, "details"), "stdout"), "x");
	json_decref(body);
}

static void test_retry_words(void **state)
{
	struct err err = {.kind = ERR_INTERNAL,
		.msg = "dial: No route to host, No route to host; read: I/O timeout"};
	int status;
	json_t *body = error_body(&err, NULL, &status);

	assert_string_equal(text(body, "error"),
		"dial: No_route_to_host, No_route_to_host; read: I/O_timeout");
	assert_null(json_object_get(body, "details"));
	json_decref(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_envelope),
		cmocka_unit_test(test_retry_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
