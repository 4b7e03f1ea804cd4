/* SPDX-License-Identifier: Apache-2.0 */
/* Large values of events: put together, and a guest that lies about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/event_body.h"

/* Merges `bytes` into `event` and compares. */
static void check(const char *bytes, const char *event, const char *wanted)
{
	CLEANUP(event_body_done) struct event_body body = event_body_init();
	json_t *json = json_loads(event, 0, NULL), *expect = json_loads(wanted, 0, NULL);

	assert_non_null(json);
	assert_non_null(expect);
	event_body_push(&body, bytes, strlen(bytes));
	event_body_merge(&body, json);
	(void)json_object_del(json, "body"); /* may not be there */
	assert_true(json_equal(json, expect));
	assert_int_equal(body.bytes.len, 0);
	json_decref(json);
	json_decref(expect);
}

static void test_merge(void **state)
{
	check("", "{\"type\":\"clear_output\"}", "{\"type\":\"clear_output\"}");
	check("left over", "{\"type\":\"result\",\"data\":{}}",
		"{\"type\":\"result\",\"data\":{}}");
	check("onetwo", "{\"data\":{\"c/d\":\"x\"},\"body\":{\"a/b\":3,\"e/f\":3}}",
		"{\"data\":{\"c/d\":\"x\",\"a/b\":\"one\",\"e/f\":\"two\"}}");
	check("a\xffz", "{\"data\":{},\"body\":{\"a/b\":3}}",
		"{\"data\":{\"a/b\":\"a\xef\xbf\xbdz\"}}");
}

static void test_lies(void **state)
{
	static const char dropped[] = "{\"type\":\"dropped\"}";

	check("abc", "{\"data\":{},\"body\":{\"a/b\":4}}", dropped);
	check("abc", "{\"data\":{},\"body\":{\"a/b\":2,\"c/d\":2}}", dropped);
	check("abc", "{\"data\":{},\"body\":{\"a/b\":-1}}", dropped);
	check("abc", "{\"data\":{},\"body\":{\"a/b\":\"3\"}}", dropped);
	check("abc", "{\"data\":[],\"body\":{\"a/b\":3}}", dropped);
	check("abc", "{\"body\":{\"a/b\":3}}", dropped);
	check("", "{\"data\":{},\"body\":{\"a/b\":1}}", dropped);
}

static void test_too_much(void **state)
{
	CLEANUP(event_body_done) struct event_body body = event_body_init();
	char *block = calloc(1, LIMIT_EVENT_BYTES / 2 + 1);
	json_t *json = json_loads("{\"data\":{},\"body\":{\"a/b\":1}}", 0, NULL);

	assert_non_null(block);
	event_body_push(&body, block, LIMIT_EVENT_BYTES / 2 + 1);
	event_body_push(&body, block, LIMIT_EVENT_BYTES / 2 + 1);
	event_body_push(&body, block, 1);
	assert_int_equal(body.bytes.len, 0);
	event_body_merge(&body, json);
	assert_string_equal(json_string_value(json_object_get(json, "type")), "dropped");
	json_decref(json);
	/* The next event is none the worse. */
	json = json_loads("{\"data\":{},\"body\":{\"a/b\":2}}", 0, NULL);
	event_body_push(&body, "ok", 2);
	event_body_merge(&body, json);
	assert_string_equal(json_string_value(
				    json_object_get(json_object_get(json, "data"), "a/b")),
		"ok");
	json_decref(json);
	free(block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
