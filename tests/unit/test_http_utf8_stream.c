/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to UTF-8: characters cut in two, and what becomes of bytes that are none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/utf8_stream.h"

#define R "\xEF\xBF\xBD"

/* Feeds the pieces (NULL-terminated) one by one and compares the text. */
static void check(const char *const *pieces, const char *wanted)
{
	_cleanup_buf_ struct buf text = buf_init(1024);
	struct utf8_stream u = {0};

	for (; *pieces; pieces++)
		assert_int_equal(utf8_stream_push(&u, *pieces, strlen(*pieces), &text), 0);
	assert_int_equal(utf8_stream_end(&u, &text), 0);
	assert_string_equal(text.data ? text.data : "", wanted);
}

#define CHECK(wanted, ...) check((const char *const[]){__VA_ARGS__, NULL}, wanted)

static void test_valid(void **state)
{
	CHECK("", "");
	CHECK("plain", "pl", "ain");
	CHECK("\xC3\xA9", "\xC3", "\xA9");
	CHECK("\xE2\x98\x95!", "\xE2", "\x98", "\x95!");
	CHECK("a\xF0\x9F\x98\x80", "a\xF0\x9F", "\x98\x80");
	CHECK("\xEF\xBF\xBF\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF\xF4\x8F\xBF\xBF");
}

/* The same number of U+FFFD as Python's errors="replace". */
static void test_invalid(void **state)
{
	CHECK(R R, "\xFF\xFE");
	CHECK("a" R "b",
		"a\x80"
		"b");
	CHECK(R "A",
		"\xE2\x98"
		"A");                            /* one for the cut character */
	CHECK(R R R, "\xED\xA0\x80");            /* a surrogate: its first byte goes no further */
	CHECK(R R, "\xC0\xAF");                  /* overlong */
	CHECK(R R R R, "\xF4\x90\x80\x80");      /* over U+10FFFF */
	CHECK(R "\xC3\xA9", "\xE2", "\xC3\xA9"); /* a character interrupted by the next */
	CHECK("x" R, "x\xF0\x9F\x98");           /* cut by the end */
}

static void test_bound(void **state)
{
	_cleanup_buf_ struct buf text = buf_init(UTF8_STREAM_MAX(2)), small = buf_init(3);
	struct utf8_stream u = {0};

	assert_int_equal(utf8_stream_push(&u, "\xFF\xC3", 2, &text), 0);
	assert_int_equal(utf8_stream_end(&u, &text), 0);
	assert_int_equal(text.len, 6);
	assert_int_equal(utf8_stream_push(&u, "\xFF\xFF", 2, &small), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
