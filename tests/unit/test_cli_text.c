/* SPDX-License-Identifier: Apache-2.0 */
/* Text for terminals and shells: nothing that controls a terminal passes, widths are columns. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/text.h"

static void expect_clean(const char *s, const char *want)
{
	_cleanup_free_ char *clean = text_clean(s);

	assert_string_equal(clean, want);
}

static void test_clean(void **state)
{
	expect_clean("", "");
	expect_clean("plain – 日本 🐼", "plain – 日本 🐼");
	expect_clean("a\x1b[2Jb\r\n\tc\x7f", "a?[2Jb???c?");
	expect_clean("C1: \xC2\x9B"
		     "31m \xC2\x85",
		"C1: ?31m ?");
	expect_clean("bad \xff\xfe \xe2\x82", "bad ?? ??");
	expect_clean("overlong \xC0\x9B", "overlong ??");
	expect_clean("abc\u202Ecba", "abc?cba");
	expect_clean("abc\u2067cba", "abc?cba");
}

/* Whatever the bytes, the result has no control character and is decodable. */
static void test_clean_any_bytes(void **state)
{
	unsigned int seed = 1;

	for (int round = 0; round < 2000; round++) {
		char s[40];
		_cleanup_free_ char *clean = NULL;

		for (size_t i = 0; i < sizeof(s); i++) {
			seed = seed * 1103515245 + 12345;
			s[i] = (char)(seed >> 16);
		}
		s[sizeof(s) - 1] = '\0';
		clean = text_clean(s);
		assert_int_equal(strlen(clean) <= strlen(s), 1);
		for (const char *p = clean; *p; p++)
			assert_false((unsigned char)*p < 0x20 || *p == 0x7f);
		assert_int_not_equal(mbstowcs(NULL, clean, 0), (size_t)-1);
	}
}

static void expect_json(const char *json, const char *want)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	text_put_json(f, json);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, want);
	free(text);
}

static void test_json(void **state)
{
	expect_json("", "");
	expect_json("{\n  \"日本 🐼\": \"a\\u001b\"\n}", "{\n  \"日本 🐼\": \"a\\u001b\"\n}");
	expect_json("[\"\x7f\", \"\xC2\x9B"
		    "31m\", \"\u202E\"]",
		"[\"\\u007f\", \"\\u009b31m\", \"\\u202e\"]");
	expect_json("\xff", "\\ufffd");
}

static void test_width(void **state)
{
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("é"), 1);
	assert_int_equal(text_width("日本"), 4);
	assert_int_equal(text_width("e\u0301"), 1); /* a combining accent */
}

static void expect_quoted(const char *s, const char *want)
{
	_cleanup_free_ char *quoted = text_shell_quote(s);

	assert_string_equal(quoted, want);
}

static void test_shell_quote(void **state)
{
	expect_quoted("ls", "ls");
	expect_quoted("--opt=/a/b_c.d", "--opt=/a/b_c.d");
	expect_quoted("", "''");
	expect_quoted("a b", "'a b'");
	expect_quoted("$HOME `id` ; & | > * ~ \\", "'$HOME `id` ; & | > * ~ \\'");
	expect_quoted("it's", "'it'\\''s'");
	expect_quoted("''", "''\\'''\\'''");
	expect_quoted("~", "'~'");
	expect_quoted("é", "'é'");
}

static void expect_bytes(uint64_t n, const char *want)
{
	_cleanup_free_ char *text = text_bytes(n);

	assert_string_equal(text, want);
}

static void test_bytes(void **state)
{
	expect_bytes(0, "0 B");
	expect_bytes(999, "999 B");
	expect_bytes(1000, "1.0 kB");
	expect_bytes(999949, "999.9 kB");
	expect_bytes(999950, "1.0 MB");
	expect_bytes(1234567890, "1.2 GB");
	expect_bytes(UINT64_MAX, "18.4 EB");
}

static void expect_seconds(int64_t s, const char *want)
{
	_cleanup_free_ char *text = text_seconds(s);

	assert_string_equal(text, want);
}

static void test_seconds(void **state)
{
	expect_seconds(0, "0s");
	expect_seconds(119, "119s");
	expect_seconds(120, "2m");
	expect_seconds(7199, "119m");
	expect_seconds(7200, "2h");
	expect_seconds(172800, "2d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_clean_any_bytes),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_shell_quote),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_seconds),
	};

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
