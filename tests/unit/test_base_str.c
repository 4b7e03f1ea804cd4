/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: UTF-8 borders and validity (RFC 3629), hostile text made printable, hex. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

#define EURO "\xE2\x82\xAC"
#define GRIN "\xF0\x9F\x98\x80"

static void floor_is(const char *s, size_t want)
{
	assert_int_equal(str_utf8_floor(s, strlen(s)), want);
}

static void test_floor(void **state)
{
	floor_is("", 0);
	floor_is("abc", 3);
	floor_is("a" EURO, 4);
	floor_is("a\xE2\x82", 1);
	floor_is("a\xE2", 1);
	floor_is("a" GRIN, 5);
	floor_is("a\xF0\x9F\x98", 1);
	floor_is("a\xF0\x9F", 1);
	floor_is("a\xF0", 1);
	floor_is("\xC3", 0);
	/* What is no UTF-8 at all counts as whole. */
	floor_is("a\x80", 2);
	floor_is("a\xFF", 2);
	floor_is("a\xC0\x80", 3);
	floor_is("a\xE0\x80", 3); /* overlong: no beginning of anything */
	floor_is("a\xED\xA0", 3); /* a surrogate likewise */
}

static void test_is_utf8(void **state)
{
	static const char *const good[] = {"", "abc", "\xC2\x80", EURO, GRIN, "\xEF\xBF\xBF",
		"\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"};
	static const char *const bad[] = {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF",
		"\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
		"\xF5\x80\x80\x80", "\xFF", "a\xE2z"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(str_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(str_is_utf8(bad[i], strlen(bad[i])));
	assert_true(str_is_utf8("a\0b", 3));
}

static void replaced(const char *s, const char *want)
{
	char dst[64];

	assert_string_equal(str_utf8_replace(dst, s, strlen(s)), want);
}

static void test_replace(void **state)
{
	replaced("", "");
	replaced("a" EURO GRIN, "a" EURO GRIN);
	replaced("a\xFFz", "a\xEF\xBF\xBDz");
	replaced("\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD");
	replaced("\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void printed(size_t size, const char *s, const char *want)
{
	char dst[64];

	memset(dst, 'X', sizeof(dst));
	assert_string_equal(str_printable(dst, size, s, strlen(s)), want);
	for (size_t i = size; i < sizeof(dst); i++)
		assert_int_equal(dst[i], 'X');
}

static void test_printable(void **state)
{
	printed(64, "", "");
	printed(64, "plain " EURO GRIN, "plain " EURO GRIN);
	printed(64, "a\nb\x1B[31mc\x7F", "a?b?[31mc?");
	printed(64, "\xFF\x80" EURO "\xE2\x82", "??" EURO "??");
}

static void test_printable_is_cut(void **state)
{
	printed(8, "abcdefghij", "abcd...");
	printed(8, "abc" EURO EURO, "abc...");
	printed(8, GRIN GRIN, GRIN "...");
	printed(8, "abc", "abc");
}

static void test_printable_takes_nul(void **state)
{
	char dst[16];

	assert_string_equal(str_printable(dst, sizeof(dst), "a\0b", 3), "a?b");
}

static void test_hex(void **state)
{
	char dst[9];

	str_hex(dst, (const uint8_t[]){0x00, 0x0F, 0xA5, 0xFF}, 4);
	assert_string_equal(dst, "000fa5ff");
	str_hex(dst, (const uint8_t[]){0}, 0);
	assert_string_equal(dst, "");
}

static void test_starts_with(void **state)
{
	assert_true(str_starts_with("abc", "ab"));
	assert_true(str_starts_with("abc", ""));
	assert_false(str_starts_with("a", "ab"));
	assert_false(str_starts_with("xab", "ab"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_floor),
		cmocka_unit_test(test_is_utf8),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_printable_is_cut),
		cmocka_unit_test(test_printable_takes_nul),
		cmocka_unit_test(test_hex),
		cmocka_unit_test(test_starts_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
