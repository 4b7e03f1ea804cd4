/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms: which bucket a value falls into, and the text to the last byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"

static const char *const sizes[] = {"small", "large"};
static const struct histogram_family family = {.name = "pandastack_test",
	.help = "A test.",
	.label = "size",
	.values = sizes,
	.n_values = ARRAY_SIZE(sizes),
	.n_bounds = 3,
	.bounds = {0.005, 1, 4294967296}};

static void test_a_bound_is_in_its_bucket(void **state)
{
	struct histogram h = {0};

	histogram_add(&family, &h, 0);
	histogram_add(&family, &h, 0.005);
	histogram_add(&family, &h, 0.0051);
	histogram_add(&family, &h, 1);
	histogram_add(&family, &h, 4294967296.0);
	histogram_add(&family, &h, 4294967297.0);
	assert_int_equal(h.counts[0], 2);
	assert_int_equal(h.counts[1], 2);
	assert_int_equal(h.counts[2], 1);
	assert_int_equal(h.counts[3], 1);
}

static void test_text(void **state)
{
	_cleanup_buf_ struct buf text = buf_init(10000);
	struct histogram all[ARRAY_SIZE(sizes)] = {0};

	histogram_add(&family, &all[1], 0.001);
	histogram_add(&family, &all[1], 0.25);
	histogram_add(&family, &all[1], 5e9);
	assert_int_equal(histogram_append(&family, all, &text), 0);
	assert_string_equal(text.data,
		"# HELP pandastack_test A test.\n"
		"# TYPE pandastack_test histogram\n"
		"pandastack_test_bucket{size=\"small\",le=\"0.005\"} 0\n"
		"pandastack_test_bucket{size=\"small\",le=\"1\"} 0\n"
		"pandastack_test_bucket{size=\"small\",le=\"4294967296\"} 0\n"
		"pandastack_test_bucket{size=\"small\",le=\"+Inf\"} 0\n"
		"pandastack_test_sum{size=\"small\"} 0\n"
		"pandastack_test_count{size=\"small\"} 0\n"
		"pandastack_test_bucket{size=\"large\",le=\"0.005\"} 1\n"
		"pandastack_test_bucket{size=\"large\",le=\"1\"} 2\n"
		"pandastack_test_bucket{size=\"large\",le=\"4294967296\"} 2\n"
		"pandastack_test_bucket{size=\"large\",le=\"+Inf\"} 3\n"
		"pandastack_test_sum{size=\"large\"} 5000000000.251\n"
		"pandastack_test_count{size=\"large\"} 3\n");
}

static void test_a_full_buffer(void **state)
{
	const struct histogram all[ARRAY_SIZE(sizes)] = {0};

	for (size_t max = 0; max < 600; max += 50) {
		_cleanup_buf_ struct buf text = buf_init(max);

		assert_int_equal(histogram_append(&family, all, &text), -EMSGSIZE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_bound_is_in_its_bucket),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_a_full_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
