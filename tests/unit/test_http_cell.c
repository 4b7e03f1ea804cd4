/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell's stream becomes: output and its cut, results, clearing, errors, a guest that lies. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "http/cell.h"

static const struct http_limits limits = {
	.output_bytes = MIB(1),
	.results_bytes = MIB(32),
};

static void event(struct cell *cell, const char *text)
{
	json_t *json = json_loads(text, 0, NULL);

	assert_non_null(json);
	cell_event(cell, json);
	json_decref(json);
}

/* Ends the cell with that answer of the guest. */
static json_t *answer(struct cell *cell, const char *ok)
{
	json_t *json = json_loads(ok, 0, NULL), *result = cell_answer(cell, json);

	assert_non_null(result);
	json_decref(json);
	cell_done(cell);
	return result;
}

static const char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "(absent)";
}

static void test_results(void **state)
{
	struct cell cell;
	json_t *a, *wanted;

	cell_init(&cell, &limits);
	cell_output(&cell, false, "out", 3);
	cell_output(&cell, true, "err", 3);
	event(&cell,
		"{\"type\":\"result\",\"data\":{\"text/plain\":\"1\",\"application/json\":{\"a\":[1]},"
		"\"text/html\":null,\"type\":\"x\"},\"display_id\":\"d\"}");
	event(&cell, "{\"type\":\"result\",\"data\":{\"text/plain\":\"2\"}}");
	event(&cell,
		"{\"type\":\"result\",\"data\":{\"text/plain\":\"3\"},\"display_id\":\"d\",\"update\":true}");
	event(&cell,
		"{\"type\":\"result\",\"data\":{\"text/plain\":\"4\"},\"display_id\":\"new\",\"update\":true}");
	a = answer(&cell,
		"{\"status\":\"ok\",\"execution_count\":3,\"duration_ms\":4,\"exit_code\":0}");
	wanted =
		json_loads("[{\"text/plain\":\"3\"},{\"text/plain\":\"2\"},{\"text/plain\":\"4\"}]",
			0, NULL);
	assert_true(json_equal(json_object_get(a, "results"), wanted));
	assert_string_equal(text(a, "stdout"), "out");
	assert_string_equal(text(a, "stderr"), "err");
	assert_string_equal(text(a, "error"), "(absent)");
	assert_int_equal(json_integer_value(json_object_get(a, "exit")), 0);
	assert_int_equal(json_integer_value(json_object_get(a, "execution_count")), 3);
	json_decref(wanted);
	json_decref(a);
}

static void test_bundle(void **state)
{
	json_t *data =
		json_loads("{\"application/json\":{\"a\":[1]},\"text/html\":null,\"type\":\"x\"}",
			0, NULL);
	json_t *bundle = cell_bundle(data);

	assert_string_equal(text(bundle, "application/json"), "{\"a\":[1]}");
	assert_int_equal(json_object_size(bundle), 1);
	json_decref(bundle);
	json_decref(data);
}

static void test_clear(void **state)
{
	struct cell cell;
	json_t *a;

	cell_init(&cell, &limits);
	cell_output(&cell, false, "gone", 4);
	event(&cell, "{\"type\":\"result\",\"data\":{\"text/plain\":\"gone\"}}");
	event(&cell, "{\"type\":\"clear_output\",\"wait\":false}");
	cell_output(&cell, false, "old", 3);
	event(&cell, "{\"type\":\"clear_output\",\"wait\":true}");
	event(&cell, "{\"type\":\"result\",\"data\":{\"text/plain\":\"new\"}}");
	event(&cell, "{\"type\":\"clear_output\",\"wait\":true}"); /* nothing follows */
	a = answer(&cell, "{\"status\":\"ok\"}");
	assert_string_equal(text(a, "stdout"), "");
	assert_int_equal(json_array_size(json_object_get(a, "results")), 1);
	json_decref(a);
}

static void test_errors(void **state)
{
	struct cell cell;
	json_t *a;

	cell_init(&cell, &limits);
	event(&cell,
		"{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\",\"line\":2}");
	a = answer(&cell, "{\"status\":\"error\",\"exit_code\":1}");
	assert_string_equal(text(a, "error"), "t");
	assert_string_equal(text(a, "error_name"), "E");
	assert_string_equal(text(a, "error_value"), "v");
	assert_int_equal(json_integer_value(json_object_get(a, "error_line")), 2);
	assert_int_equal(json_integer_value(json_object_get(a, "exit_code")), 1);
	json_decref(a);

	cell_init(&cell, &limits);
	a = answer(&cell,
		"{\"status\":\"died\",\"signal\":11,\"state_lost\":true,\"reason\":\"it died\"}");
	assert_string_equal(text(a, "error"), "it died");
	assert_int_equal(json_integer_value(json_object_get(a, "signal")), 11);
	assert_true(json_is_true(json_object_get(a, "state_lost")));
	assert_true(json_is_false(json_object_get(a, "kernel_restarted")));
	assert_int_equal(json_integer_value(json_object_get(a, "exit_code")), 1);
	json_decref(a);
}

static void test_cuts(void **state)
{
	_cleanup_free_ char *big = malloc(MIB(1));
	struct cell cell;
	const char *s;
	json_t *a;

	assert_non_null(big);
	memset(big, 'x', MIB(1));
	cell_init(&cell, &limits);
	cell_output(&cell, false, big, MIB(1) - 1);
	cell_output(&cell, false, "\xE2\x98\x95", 3); /* does not fit: no part of it stays */
	cell_output(&cell, true, big, MIB(1));
	a = answer(&cell, "{\"status\":\"ok\"}");
	s = text(a, "stdout");
	assert_int_equal(strspn(s, "x"), MIB(1) - 1);
	assert_string_equal(s + MIB(1) - 1, "\n[cut: 1048578 bytes in all]\n");
	assert_int_equal(strlen(text(a, "stderr")), MIB(1));
	assert_true(json_is_true(json_object_get(a, "truncated")));
	json_decref(a);
}

static void test_too_many_results(void **state)
{
	json_t *data = json_object(), *ev = json_pack("{s:s, s:o}", "type", "result", "data", data),
	       *a;
	_cleanup_free_ char *big = malloc(MIB(32) / 3);
	struct cell cell;

	assert_non_null(big);
	memset(big, 'x', MIB(32) / 3);
	assert_int_equal(json_object_set_new(data, "text/plain", json_stringn(big, MIB(32) / 3)),
		0);
	cell_init(&cell, &limits);
	for (int i = 0; i < 4; i++)
		cell_event(&cell, ev);
	json_decref(ev);
	a = answer(&cell, "{\"status\":\"ok\"}");
	assert_int_equal(json_array_size(json_object_get(a, "results")), 2);
	assert_true(json_is_true(json_object_get(a, "truncated")));
	json_decref(a);
}

/* Members of the wrong type are as good as absent. */
/* A display's name counts as much as what it shows. */
static void test_long_names(void **state)
{
	struct cell cell;
	_cleanup_free_ char *name = xcalloc(1, MIB(1) + 1);
	json_t *result;

	memset(name, 'n', MIB(1));
	cell_init(&cell, &limits);
	for (int i = 0; i < 40; i++) {
		json_t *json =
			json_pack("{s:s, s:s, s:{}}", "type", "result", "display_id", name, "data");

		cell_event(&cell, json);
		json_decref(json);
	}
	assert_true(json_array_size(cell.display_ids) < 32);
	assert_true(cell.results_bytes <= MIB(32));
	result = answer(&cell, "{\"status\":\"ok\"}");
	assert_true(json_is_true(json_object_get(result, "truncated")));
	json_decref(result);
}

static void test_lies(void **state)
{
	struct cell cell;
	json_t *a;

	cell_init(&cell, &limits);
	event(&cell, "{\"type\":1}");
	event(&cell, "{\"type\":\"result\",\"data\":[1],\"display_id\":[]}");
	event(&cell, "{\"type\":\"error\",\"traceback\":{\"a\":1},\"line\":\"x\"}");
	a = answer(&cell,
		"{\"status\":[],\"exit_code\":\"0\",\"duration_ms\":\"x\",\"state_lost\":1}");
	assert_string_equal(text(a, "status"), "died");
	assert_string_equal(text(a, "error"), "the kernel died");
	assert_int_equal(json_integer_value(json_object_get(a, "exit_code")), 1);
	assert_null(json_object_get(a, "duration_ms"));
	assert_null(json_object_get(a, "error_line"));
	assert_true(json_is_false(json_object_get(a, "state_lost")));
	json_decref(a);
}

/* Of an event only what the answer tells is kept, and that is bounded. */
static void test_large_errors(void **state)
{
	static const struct http_limits small = {.output_bytes = MIB(1), .results_bytes = 10};
	struct cell cell;
	json_t *a;

	cell_init(&cell, &small);
	event(&cell,
		"{\"type\":\"error\",\"name\":\"E\",\"value\":\"0123456789\","
		"\"traceback\":\"012345678\u00e9\",\"frames\":[[],[],[]]}");
	assert_int_equal(json_object_size(cell.error), 3);
	a = answer(&cell, "{\"status\":\"error\"}");
	assert_string_equal(text(a, "error"), "012345678");
	assert_string_equal(text(a, "error_name"), "E");
	assert_string_equal(text(a, "error_value"), "0123456789");
	assert_null(json_object_get(a, "frames"));
	assert_true(json_is_true(json_object_get(a, "truncated")));
	json_decref(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_bundle),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_large_errors),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_too_many_results),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
