/* SPDX-License-Identifier: Apache-2.0 */
/* Time: the text of an instant, deadlines, and that the clocks go forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void formats(int64_t ms, const char *want)
{
	char text[CLOCK_TEXT_SIZE];

	assert_string_equal(clock_format_rfc3339(text, ms), want);
}

static void test_format(void **state)
{
	formats(0, "1970-01-01T00:00:00.000Z");
	formats(1795965360123, "2026-11-29T15:16:00.123Z");
	formats(951782400007, "2000-02-29T00:00:00.007Z");
	formats(4102444799999, "2099-12-31T23:59:59.999Z");
}

static void test_forward(void **state)
{
	int64_t us = clock_mono_us(), ms = clock_mono_ms();

	assert_true(ms >= us / 1000);
	assert_true(clock_mono_us() >= us);
	assert_true(clock_real_ms() > 1700000000000);
	assert_true(clock_real_ns() / 1000000 >= 1700000000000);
}

static void test_deadline(void **state)
{
	int64_t before = clock_mono_ms();
	struct timespec ts = clock_deadline(1999);
	int64_t after = clock_mono_ms(), ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

	assert_in_range(ts.tv_nsec, 0, 999999999);
	assert_true(ms >= before + 1999 && ms <= after + 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
