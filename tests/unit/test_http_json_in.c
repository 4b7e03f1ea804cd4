/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a client's JSON: defaults, types, bounds, and the words of the errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "http/json_in.h"

static json_t *parse(const char *text)
{
	json_t *obj = NULL;

	assert_int_equal(json_in_parse(text, strlen(text), &obj, NULL), 0);
	return obj;
}

static void test_bodies(void **state)
{
	static const char *const bad[] = {"{", "[]", "1", "\"x\"", "null", "{\"a\":1,\"a\":2}",
		"{} x", "\xFF", "{\"a\":\"\xFF\"}", "{\"a\":\"\\ud800\"}", " "};
	json_t *obj = parse("");

	assert_int_equal(json_object_size(obj), 0);
	json_decref(obj);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};

		obj = NULL;
		if (json_in_parse(bad[i], strlen(bad[i]), &obj, &err) != -EINVAL ||
			err.kind != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_null(obj);
	}
}

/* {"a":[0,0,…]} */
static int parse_list(size_t values, struct err *err)
{
	_cleanup_free_ char *text = malloc(2 * values + 8);
	json_t *obj = NULL;
	size_t len = 5;
	int r;

	assert_non_null(text);
	memcpy(text, "{\"a\":", len);
	for (size_t i = 0; i < values; i++) {
		text[len++] = i ? ',' : '[';
		text[len++] = '0';
	}
	memcpy(text + len, "]}", 2);
	r = json_in_parse(text, len + 2, &obj, err);
	json_decref(obj);
	return r;
}

static void test_number_of_values(void **state)
{
	struct err err = {0};

	assert_int_equal(parse_list(LIMIT_JSON_VALUES - 1, &err), 0);
	assert_int_equal(parse_list(LIMIT_JSON_VALUES, &err), -EMSGSIZE);
	assert_int_equal(err.kind, ERR_TOO_LARGE);
	assert_string_equal(err.msg, "the body has too many values: at most 131072 are taken");
}

static void test_strings(void **state)
{
	json_t *obj = parse("{\"s\":\"four\",\"n\":null,\"i\":1,\"z\":\"a\\u0000b\"}");
	const char *s = "default";
	struct err err = {0};

	assert_int_equal(json_in_str(obj, "none", 4, &s, &err), 0);
	assert_int_equal(json_in_str(obj, "n", 4, &s, &err), 0);
	assert_string_equal(s, "default");
	assert_int_equal(json_in_str(obj, "i", 4, &s, &err), -EINVAL);
	assert_string_equal(err.msg, "`i` must be a string, not 1");
	assert_int_equal(json_in_str(obj, "z", 4, &s, &err), -EINVAL);
	assert_int_equal(json_in_str(obj, "s", 3, &s, &err), -EMSGSIZE);
	assert_int_equal(err.kind, ERR_TOO_LARGE);
	assert_string_equal(s, "default");
	assert_int_equal(json_in_str(obj, "s", 4, &s, &err), 0);
	assert_string_equal(s, "four");
	json_decref(obj);
}

static void test_numbers(void **state)
{
	json_t *obj = parse(
		"{\"i\":5,\"r\":5.0,\"f\":5.5,\"s\":\"abc\",\"big\":1e300,\"neg\":-1,\"t\":true}");
	static const char *const never[] = {"f", "s", "big", "neg", "t"};
	int64_t n = 7, ms = 9;
	struct err err = {0};
	bool b = false;

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		assert_int_equal(json_in_int(obj, never[i], 0, 10, &n, &err), -EINVAL);
	assert_int_equal(json_in_int(obj, "s", 0, 10, &n, &err), -EINVAL);
	assert_string_equal(err.msg, "`s` must be an integer between 0 and 10, not \"abc\"");
	assert_int_equal(n, 7);
	assert_int_equal(json_in_int(obj, "r", 5, 5, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_int_equal(json_in_seconds(obj, "f", 10000, &ms, &err), 0);
	assert_int_equal(ms, 5500);
	assert_int_equal(json_in_seconds(obj, "f", 5000, &ms, &err), -EINVAL);
	assert_int_equal(json_in_seconds(obj, "neg", 5000, &ms, &err), -EINVAL);
	assert_int_equal(json_in_seconds(obj, "big", 5000, &ms, &err), -EINVAL);
	assert_int_equal(json_in_bool(obj, "i", &b, &err), -EINVAL);
	assert_int_equal(json_in_bool(obj, "t", &b, &err), 0);
	assert_true(b);
	json_decref(obj);
}

static void test_maps(void **state)
{
	static const struct json_in_map_limits limits = {.entries = 2,
		.key_bytes = 3,
		.value_bytes = 3};
	static const char *const bad[] = {"{\"m\":[]}", "{\"m\":{\"a\":1}}",
		"{\"m\":{\"long\":\"\"}}", "{\"m\":{\"a\":\"long\"}}",
		"{\"m\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}"};
	static const char *const bad_env[] = {"{\"m\":{\"\":\"\"}}", "{\"m\":{\"a=b\":\"\"}}"};
	json_t *map = NULL, *obj;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		obj = parse(bad[i]);
		assert_true(json_in_map(obj, "m", &limits, &map, NULL) < 0);
		json_decref(obj);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_env); i++) {
		obj = parse(bad_env[i]);
		assert_int_equal(json_in_env(obj, "m", &map, NULL), -EINVAL);
		json_decref(obj);
	}
	assert_null(map);
	obj = parse("{\"m\":{\"a\":\"b\"}}");
	assert_int_equal(json_in_env(obj, "m", &map, NULL), 0);
	assert_int_equal(json_object_size(map), 1);
	json_decref(obj);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_number_of_values),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
