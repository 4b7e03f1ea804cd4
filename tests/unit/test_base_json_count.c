/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a JSON text: what is counted, and what only looks like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_count.h"
#include "base/macros.h"

static void test_values(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} cases[] = {
		{"", 0},
		{"1", 0},
		{"[]", 1},
		{"[1, 2, 3]", 3},
		{"[{}, {}, []]", 6},
		{"{\"a\": 1, \"b\": {\"c\": [2]}}", 4},
		{"[[[[", 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(json_count_values(cases[i].text, strlen(cases[i].text)),
			cases[i].n);
}

static void test_text_is_no_value(void **state)
{
	static const char *const texts[] = {"[\"a,b[{\"]", "[\"\\\",[{,\"]", "[\"\\\\\"]",
		"[\"\\\\\\\",,\"]", "[\",,,", "[\"\\"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(json_count_values(texts[i], strlen(texts[i])), 1);
	assert_int_equal(json_count_values("[\"\0,\"]", 6), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_text_is_no_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
