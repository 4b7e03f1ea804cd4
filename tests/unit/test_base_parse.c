/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers: what is a number, what is out of range, and that failure changes nothing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"

static const char *const never_numbers[] = {"", " ", "-", "+1", " 1", "1 ", "1x", "0x10", "1.5",
	"--1", "-+1", "one", "\xD9\xA1"};

static void test_i64(void **state)
{
	int64_t v = 77;

	for (size_t i = 0; i < sizeof(never_numbers) / sizeof(never_numbers[0]); i++)
		assert_int_equal(parse_i64(never_numbers[i], INT64_MIN, INT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_i64("11", 0, 10, &v), -ERANGE);
	assert_int_equal(parse_i64("-1", 0, 10, &v), -ERANGE);
	assert_int_equal(parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &v), -ERANGE);
	assert_int_equal(v, 77);
	assert_int_equal(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &v), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(parse_i64("010", 0, 10, &v), 0); /* decimal, whatever C thinks */
	assert_int_equal(v, 10);
}

static void test_u64(void **state)
{
	uint64_t v = 77;

	for (size_t i = 0; i < sizeof(never_numbers) / sizeof(never_numbers[0]); i++)
		assert_int_equal(parse_u64(never_numbers[i], 0, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_u64("-1", 0, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_u64("4", 5, 6, &v), -ERANGE);
	assert_int_equal(v, 77);
	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
}

static void test_hex(void **state)
{
	static const char *const bad[] = {"", "0x1F", "g", "-1", " 1", "1 ", "1f:"};
	uint64_t v = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_hex(bad[i], 0, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_hex("10000", 0, UINT16_MAX, &v), -ERANGE);
	assert_int_equal(parse_hex("11112222333344445", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(v, 77);
	assert_int_equal(parse_hex("1F90", 1, UINT16_MAX, &v), 0);
	assert_int_equal(v, 8080);
	assert_int_equal(parse_hex("00ff", 0, UINT16_MAX, &v), 0);
	assert_int_equal(v, 255);
}

static void duration(const char *s, int64_t want)
{
	int64_t v = -1;

	assert_int_equal(parse_duration_ms(s, 0, INT64_MAX, &v), 0);
	assert_int_equal(v, want);
}

static void test_duration(void **state)
{
	static const char *const bad[] = {"", "s", "-1s", "1 s", "1S", "1d", "1.5s", "1ms2", "+1s"};
	int64_t v = 77;

	duration("250ms", 250);
	duration("30s", 30000);
	duration("30", 30000);
	duration("5m", 300000);
	duration("2h", 7200000);
	duration("0", 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_duration_ms(bad[i], 0, INT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_duration_ms("11s", 0, 10999, &v), -ERANGE);
	assert_int_equal(parse_duration_ms("1ms", 2, 10, &v), -ERANGE);
	assert_int_equal(parse_duration_ms("9223372036854775807h", 0, INT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_duration_ms("99999999999999999999", 0, INT64_MAX, &v), -ERANGE);
	assert_int_equal(v, 77);
}

static void size(const char *s, uint64_t want)
{
	uint64_t v = 1;

	assert_int_equal(parse_size(s, 0, UINT64_MAX, &v), 0);
	assert_true(v == want);
}

static void test_size(void **state)
{
	static const char *const bad[] = {"", "k", "-1k", "1 k", "1x", "1.5m", "1kk", "1kib2",
		"+1"};
	uint64_t v = 77;

	size("0", 0);
	size("1000", 1000);
	size("64K", 64 << 10);
	size("1MiB", 1 << 20);
	size("1mb", 1 << 20);
	size("2g", 2ULL << 30);
	size("3t", 3ULL << 40);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_size(bad[i], 0, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_size("2k", 0, 2047, &v), -ERANGE);
	assert_int_equal(parse_size("1k", 1025, 9999, &v), -ERANGE);
	assert_int_equal(parse_size("18446744073709551615k", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_size("99999999999999999999", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(v, 77);
}

static void instant(const char *s, int64_t want)
{
	int64_t v = 1;

	assert_int_equal(parse_rfc3339_ms(s, &v), 0);
	assert_true(v == want);
}

static void test_rfc3339(void **state)
{
	static const char *const bad[] = {"", "now", "1795965360", "2026-11-29",
		"2026-11-29T15:16:00", "2026-11-29 15:16:00Z", "2026-11-29T15:16Z",
		"2026-11-29T15:16:00.Z", "2026-11-29T15:16:00.1", "2026-11-29T15:16:00Z ",
		" 2026-11-29T15:16:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
		"2026-11-29T25:00:00Z", "2026-11-29T15:16:00+2:00", "2026-11-29T15:16:00+24:00",
		"2026-11-29T15:16:00+02:60", "2026-11-29T15:16:00+02:000", "-026-11-29T15:16:00Z",
		"2026-11- 9T15:16:00Z"};
	int64_t v = 77;

	instant("1970-01-01T00:00:00Z", 0);
	instant("2026-11-29T15:16:00.123Z", 1795965360123);
	instant("2026-11-29T15:16:00.1239999Z", 1795965360123);
	instant("2026-11-29T15:16:00.5Z", 1795965360500);
	instant("2026-11-29T17:16:00.123+02:00", 1795965360123);
	instant("2026-11-29T10:46:00-04:30", 1795965360000);
	instant("2000-02-29T00:00:00.007Z", 951782400007);
	instant("2016-12-31T23:59:60Z", 1483228800000);
	instant("9999-12-31T23:59:59.999Z", 253402300799999);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_rfc3339_ms(bad[i], &v), -EINVAL);
	assert_int_equal(parse_rfc3339_ms("1969-12-31T23:59:59Z", &v), -ERANGE);
	assert_int_equal(parse_rfc3339_ms("1970-01-01T00:00:00+00:01", &v), -ERANGE);
	assert_int_equal(v, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_i64),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_hex),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_rfc3339),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
