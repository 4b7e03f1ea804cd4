/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: aligned by columns of the terminal, or by tabs; hostile values are cleaned. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/macros.h"
#include "cli/table.h"

static const struct table_column columns[] = {
	{"NAME", "name", table_any},
	{"SIZE", "size", table_size},
	{"NOTE", "note", table_any},
};

static void expect(struct table_style style, const char *json, const char *want)
{
	json_t *rows = json_loads(json, 0, NULL);
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(rows);
	assert_non_null(f);
	table_print(f, style, rows, columns, ARRAY_SIZE(columns));
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, want);
	free(text);
	json_decref(rows);
}

static void test_aligned(void **state)
{
	const struct table_style style = {.aligned = true};

	expect(style, "[]", "NAME  SIZE  NOTE\n");
	expect(style,
		"[{\"name\":\"日本\",\"size\":5,\"note\":\"x\"},{\"name\":\"a\",\"size\":1500}]",
		"NAME  SIZE    NOTE\n"
		"日本  5 B     x\n"
		"a     1.5 kB  -\n");
}

static void test_colour(void **state)
{
	expect((struct table_style){.aligned = true, .colour = true}, "[]",
		"\033[1mNAME  SIZE  NOTE\033[0m\n");
}

static void test_tabs(void **state)
{
	expect((struct table_style){0},
		"[{\"name\":\"a\\tb\\n\",\"size\":-1,\"note\":\"\\u001b[2J\"}]",
		"a?b?\t-1\t?[2J\n");
}

static void test_values(void **state)
{
	const struct table_style style = {0};

	expect(style, "[{\"name\":true,\"size\":\"big\",\"note\":1.5}]", "yes\tbig\t1.5\n");
	expect(style, "[{\"name\":{\"k\":\"v\",\"n\":2},\"size\":null,\"note\":[1,[2,3],{}]}]",
		"k=v,n=2\t-\t1,2,3,-\n");
	expect(style, "[5, {\"name\":\"\"}]", "-\t-\t-\n-\t-\t-\n");
	expect(style, "{\"not\": \"an array\"}", "");
}

static void test_values_by_themselves(void **state)
{
	static table_format_fn *const formats[] = {table_any, table_size, table_age, table_left};
	json_t *hostile = json_pack("[s, {s:s}]", "a\x1b[2J", "\xC2\x9B", "\x7f");

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		char *text = formats[i](hostile);

		assert_string_equal(text, "a?[2J,?=?");
		free(text);
	}
	json_decref(hostile);
}

static void expect_time(table_format_fn *format, int64_t offset_s, const char *want)
{
	char text[CLOCK_TEXT_SIZE];
	json_t *value = json_string(clock_format_rfc3339(text, clock_real_ms() + offset_s * 1000));
	char *got = format(value);

	assert_string_equal(got, want);
	free(got);
	json_decref(value);
}

static void test_times(void **state)
{
	expect_time(table_age, -600, "10m");
	expect_time(table_age, 600, "0s"); /* clocks differ */
	expect_time(table_left, -600, "0s");
	expect_time(table_left, 2 * 86400 + 60, "2d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aligned),
		cmocka_unit_test(test_colour),
		cmocka_unit_test(test_tabs),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_values_by_themselves),
		cmocka_unit_test(test_times),
	};

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
