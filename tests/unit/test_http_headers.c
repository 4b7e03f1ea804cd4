/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of messages: what is well-formed, looking up, lists of elements. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/headers.h"

static int add(struct buf *list, const char *name, const char *value)
{
	return headers_add(list, name, strlen(name), value, strlen(value));
}

static void test_order(void **state)
{
	_cleanup_buf_ struct buf list = buf_init(1000);
	struct http_header h;
	size_t pos = 0;

	assert_false(headers_next(&list, &pos, &h));
	assert_null(headers_get(&list, "A"));
	assert_int_equal(add(&list, "A", " \t1 2\t"), 0);
	assert_int_equal(add(&list, "Empty", ""), 0);
	assert_int_equal(add(&list, "a", "3"), 0);
	assert_true(headers_next(&list, &pos, &h));
	assert_string_equal(h.name, "A");
	assert_string_equal(h.value, "1 2");
	assert_true(headers_next(&list, &pos, &h));
	assert_string_equal(h.value, "");
	assert_true(headers_next(&list, &pos, &h));
	assert_string_equal(h.name, "a");
	assert_false(headers_next(&list, &pos, &h));
	assert_string_equal(headers_get(&list, "a"), "1 2");
	assert_string_equal(headers_get(&list, "EMPTY"), "");
}

static void test_malformed(void **state)
{
	static const char *const names[] = {"", " ", "A ", " A", "A:", "A B", "A\r", "A\n",
		"\xC3\xA4", "A\t", "(A)"};
	static const char *const values[] = {"a\rb", "a\nb", "a\r\nB: c", "\x01", "a\x7F"};
	_cleanup_buf_ struct buf list = buf_init(16);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(add(&list, names[i], "v"), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_int_equal(add(&list, "N", values[i]), -EINVAL);
	assert_int_equal(headers_add(&list, "N", 1, "a\0b", 3), -EINVAL);
	assert_int_equal(headers_add(&list, "N\0M", 3, "a", 1), -EINVAL);
	assert_int_equal(add(&list, "Name", "0123456789AB"), -EMSGSIZE);
	assert_int_equal(list.len, 0); /* all of it or nothing */
	assert_int_equal(add(&list, "Name", "\x80\xFF\t123456"), 0);
}

static void test_elements(void **state)
{
	static const char *const yes[] = {"upgrade", "Upgrade", "a, UPGRADE", "a,upgrade,b",
		" upgrade ", "a ,\tupgrade\t, b", ",,upgrade"};
	static const char *const no[] = {"", ",", "upgrades", "up", "a upgrade", "upgrade b",
		"x-upgrade", "\"upgrade\""};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		_cleanup_buf_ struct buf list = buf_init(100);

		assert_int_equal(add(&list, "Connection", "first"), 0);
		assert_int_equal(add(&list, "connection", yes[i]), 0);
		if (!headers_have(&list, "Connection", "upgrade"))
			fail_msg("not found: %s", yes[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		_cleanup_buf_ struct buf list = buf_init(100);

		assert_int_equal(add(&list, "Connection", no[i]), 0);
		assert_int_equal(add(&list, "Other", "upgrade"), 0);
		if (headers_have(&list, "Connection", "upgrade"))
			fail_msg("found: %s", no[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_elements),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
