/* SPDX-License-Identifier: Apache-2.0 */
/* Output in lines: whatever the pieces, the same lines; long ones in parts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/lines.h"

/* Shows each line as <line>. */
static int show(const char *line, size_t len, void *user)
{
	return buf_appendf(user, "<%.*s>", (int)len, line);
}

static void gives(const char *input, size_t len, size_t step, const char *want)
{
	_cleanup_buf_ struct buf got = buf_init(KIB(64));
	struct lines l = lines_init();

	for (size_t at = 0; at < len; at += step)
		assert_int_equal(lines_push(&l, input + at, MIN(step, len - at), show, &got), 0);
	assert_int_equal(lines_end(&l, show, &got), 0);
	assert_string_equal(got.data ? got.data : "", want);
	lines_done(&l);
}

static void test_pieces(void **state)
{
	static const char text[] = "one\n\n\xe2\x98\x95 \xff\ntw\xe2\x98o\r\nrest";

	for (size_t step = 1; step < sizeof(text); step++)
		gives(text, sizeof(text) - 1, step,
			"<one\n><\n><\xe2\x98\x95 \xef\xbf\xbd\n><tw\xef\xbf\xbdo\r\n><rest>");
	gives("", 0, 1, "");
	gives("\xe2", 1, 1, "<\xef\xbf\xbd>");
}

struct count {
	size_t calls, bytes, longest;
	bool whole; /* the last one ended with a newline */
};

static int count(const char *line, size_t len, void *user)
{
	struct count *c = user;

	c->calls++;
	c->bytes += len;
	c->longest = MAX(c->longest, len);
	c->whole = line[len - 1] == '\n';
	return 0;
}

static void test_long_lines(void **state)
{
	static const char coffee[] = "\xe2\x98\x95";
	struct lines l = lines_init();
	struct count c = {0};

	for (int i = 0; i < 100000; i++)
		assert_int_equal(lines_push(&l, coffee, 3, count, &c), 0);
	assert_false(c.whole);
	assert_int_equal(lines_push(&l, "\n", 1, count, &c), 0);
	assert_true(c.whole);
	assert_int_equal(c.bytes, 300001);
	assert_in_range(c.longest, LINES_BYTES_MAX - 3, LINES_BYTES_MAX);
	assert_int_equal(c.calls, 300001 / c.longest + 1);
	lines_done(&l);
}

static int refuse(const char *line, size_t len, void *user)
{
	return -EXDEV;
}

static void test_refusal(void **state)
{
	struct lines l = lines_init();

	assert_int_equal(lines_push(&l, "a\nb\n", 4, refuse, NULL), -EXDEV);
	lines_done(&l);
}

static void test_tail(void **state)
{
	static const char text[] = "a\nbb\n\nccc\n", open[] = "a\nb";

	assert_int_equal(lines_tail(text, 10, 0), 10);
	assert_int_equal(lines_tail(text, 10, 1), 6);
	assert_int_equal(lines_tail(text, 10, 2), 5);
	assert_int_equal(lines_tail(text, 10, 3), 2);
	assert_int_equal(lines_tail(text, 10, 4), 0);
	assert_int_equal(lines_tail(text, 10, UINT64_MAX), 0);
	assert_int_equal(lines_tail(open, 3, 1), 2);
	assert_int_equal(lines_tail(open, 3, 2), 0);
	assert_int_equal(lines_tail("\n", 1, 1), 0);
	assert_int_equal(lines_tail(text, 0, 1), 0);
}

static void test_first(void **state)
{
	_cleanup_free_ char *text = xcalloc(1, KIB(40));

	assert_int_equal(lines_first("a\nb", 3), 2);
	assert_int_equal(lines_first("b", 1), 1);
	memset(text, 'x', KIB(40));
	assert_int_equal(lines_first(text, KIB(40)), LINES_BYTES_MAX);
	memcpy(text + LINES_BYTES_MAX - 2, "\xe2\x98\x95", 3);
	assert_int_equal(lines_first(text, KIB(40)), LINES_BYTES_MAX - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_refusal),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
