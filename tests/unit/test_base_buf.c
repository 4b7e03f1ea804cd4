/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded buffer: it grows to its bound and not a byte further. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_append(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(10);

	assert_null(b.data);
	assert_int_equal(buf_append(&b, "hello", 5), 0);
	assert_int_equal(buf_append(&b, " you", 4), 0);
	assert_string_equal(b.data, "hello you");
	assert_int_equal(b.len, 9);
}

static void test_all_or_nothing(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(4);

	assert_int_equal(buf_append(&b, "abc", 3), 0);
	assert_int_equal(buf_append(&b, "de", 2), -EMSGSIZE);
	assert_int_equal(buf_sink("de", 2, &b), -EMSGSIZE);
	assert_int_equal(buf_appendf(&b, "%d", 12), -EMSGSIZE);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);
	assert_string_equal(b.data, "abc");
	assert_int_equal(buf_sink("d", 1, &b), 0);
	assert_string_equal(b.data, "abcd");
}

static void test_nothing_appended(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(0);

	assert_int_equal(buf_append(&b, NULL, 0), 0);
	assert_string_equal(b.data, "");
	assert_int_equal(buf_append(&b, "x", 1), -EMSGSIZE);
}

static void test_format(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(100000);

	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_appendf(&b, "%d;", i), 0);
	assert_int_equal(b.len, strlen(b.data));
	assert_memory_equal(b.data, "0;1;2;", 6);
	assert_string_equal(b.data + b.len - 8, "998;999;");
}

static void test_consume(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(10);

	buf_consume(&b, 0);
	assert_int_equal(buf_append(&b, "abcdef", 6), 0);
	buf_consume(&b, 2);
	assert_string_equal(b.data, "cdef");
	buf_consume(&b, 4);
	assert_string_equal(b.data, "");
	assert_int_equal(b.len, 0);
}

/* `data` is a string at all times: after clear, and after room was made for bytes to come. */
static void test_always_terminated(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(1000);

	assert_int_equal(buf_reserve(&b, 10), 0);
	assert_string_equal(b.data, "");
	assert_int_equal(buf_append(&b, "abc", 3), 0);
	assert_int_equal(buf_reserve(&b, 900), 0);
	assert_string_equal(b.data, "abc");
	buf_clear(&b);
	assert_string_equal(b.data, "");
	assert_int_equal(b.len, 0);
}

static void test_steal(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(5);
	char *s = buf_steal(&b);

	assert_string_equal(s, "");
	free(s);
	assert_int_equal(buf_append(&b, "abc", 3), 0);
	s = buf_steal(&b);
	assert_string_equal(s, "abc");
	free(s);
	assert_null(b.data);
	assert_int_equal(buf_append(&b, "12345", 5), 0); /* the bound is still there */
	assert_int_equal(buf_append(&b, "6", 1), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_nothing_appended),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_consume),
		cmocka_unit_test(test_always_terminated),
		cmocka_unit_test(test_steal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
