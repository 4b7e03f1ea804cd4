/* SPDX-License-Identifier: Apache-2.0 */
/* How many spares, and of what, by what was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "core/demand.h"

enum {
	START = 1000000,
	SECOND = 1000,
	MINUTE = 60 * SECOND,
};

static void ask(struct demand *d, unsigned int n, const char *template, int64_t at)
{
	for (unsigned int i = 0; i < n; i++)
		demand_ask(d, template, at);
	demand_pause(d);
}

static void expect(const struct demand *d, int64_t at, unsigned int keep, unsigned int make)
{
	assert_int_equal(demand_keep(d, at), keep);
	assert_int_equal(demand_make(d, at), make);
}

static void test_one_at_a_time(void **state)
{
	struct demand d;

	(void)state;
	demand_init(&d, 2, 16, "a");
	expect(&d, START, 2, 2);
	for (int i = 0; i < 20; i++) {
		ask(&d, 1, "a", START + i);
		expect(&d, START + i, 2, 2);
		assert_true(demand_changes(&d, START + i) == INT64_MAX);
	}
}

static void test_a_burst(void **state)
{
	struct demand d;
	int64_t at = START;

	(void)state;
	demand_init(&d, 1, 16, "a");
	ask(&d, 8, "a", at);
	expect(&d, at, 8, 1); /* what is left may stay; more are made when it is calm */
	assert_int_equal(demand_changes(&d, at), at + 2 * SECOND);
	at += 2 * SECOND;
	expect(&d, at - 1, 8, 1);
	expect(&d, at, 8, 8);
	assert_int_equal(demand_changes(&d, at), START + MINUTE);
	ask(&d, 1, "a", at); /* does not prolong it */
	expect(&d, at + 2 * SECOND, 8, 8);
	at = START + MINUTE;
	expect(&d, at - 1, 8, 8);
	expect(&d, at, 1, 1);
	assert_true(demand_changes(&d, at) == INT64_MAX);
	ask(&d, 3, "a", at); /* the larger one is forgotten */
	expect(&d, at + 2 * SECOND, 3, 3);
}

static void test_bursts_that_go_on(void **state)
{
	struct demand d;

	(void)state;
	demand_init(&d, 1, 16, "a");
	for (int64_t at = START; at < START + 5 * MINUTE; at += MINUTE / 2) {
		ask(&d, 8, "a", at);
		expect(&d, at + 2 * SECOND, 8, 8);
	}
}

static void test_bounds(void **state)
{
	struct demand d;

	(void)state;
	demand_init(&d, 1, 16, "a");
	ask(&d, 1000, "a", START);
	expect(&d, START + 2 * SECOND, 16, 16);
	demand_init(&d, 40, 16, "a");
	ask(&d, 1000, "a", START);
	expect(&d, START + 2 * SECOND, 40, 40);
	demand_init(&d, DEMAND_MAX, 16, "a");
	expect(&d, START, DEMAND_MAX, DEMAND_MAX);
	assert_int_equal(demand_share(&d, DEMAND_MAX, "a"), DEMAND_MAX);
}

static void test_templates(void **state)
{
	struct demand d;

	(void)state;
	demand_init(&d, 2, 16, "a");
	assert_int_equal(demand_share(&d, 2, "a"), 2);
	ask(&d, 1, "b", START);
	assert_string_equal(demand_template(&d, 0), "b");
	assert_string_equal(demand_template(&d, 1), "a");
	assert_int_equal(demand_share(&d, 2, "a"), 1);
	assert_int_equal(demand_share(&d, 2, "b"), 1);
	ask(&d, 1, "b", START);
	assert_int_equal(demand_share(&d, 2, "a"), 0);
	for (int i = 0; i < 2 * DEMAND_MAX; i++)
		ask(&d, 1, i % 4 ? "c" : "d", START);
	assert_int_equal(demand_share(&d, DEMAND_MAX, "c"), DEMAND_MAX * 3 / 4);
	assert_int_equal(demand_share(&d, DEMAND_MAX, "b"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_a_burst),
		cmocka_unit_test(test_bursts_that_go_on),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_templates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
