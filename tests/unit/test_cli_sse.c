/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: every line end, every way to cut the bytes, and the bounds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/sse.h"

static int on_event(const struct sse_event *event, void *user)
{
	struct buf *seen = user;

	return buf_appendf(seen, "[%s|%.*s]", event->name, (int)event->len, event->data);
}

/* The events of a stream that comes in pieces of `step` bytes, as "[name|data]…". */
static void expect(const char *bytes, size_t len, size_t step, const char *want)
{
	_cleanup_sse_ struct sse sse = sse_init(1000);
	_cleanup_buf_ struct buf seen = buf_init(1000);

	for (size_t i = 0; i < len; i += step)
		assert_int_equal(sse_feed(&sse, bytes + i, MIN(step, len - i), on_event, &seen), 0);
	assert_string_equal(seen.data ? seen.data : "", want);
}

static void expect_always(const char *bytes, const char *want)
{
	for (size_t step = 1; step <= strlen(bytes); step++)
		expect(bytes, strlen(bytes), step, want);
}

static void test_events(void **state)
{
	expect_always("event: stdout\ndata: {\"chunk\":1}\n\n", "[stdout|{\"chunk\":1}]");
	expect_always("data: a\n\ndata: b\n\n", "[message|a][message|b]");
	expect_always("data: a\ndata:b\ndata:  c\n\n", "[message|a\nb\n c]");
	expect_always("data\n\n", "[message|]");
	expect_always("\n\n\n", "");
}

static void test_line_ends(void **state)
{
	expect_always("event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\r", "[a|1][b|2]");
	expect_always("data: 1\r\n\ndata: 2\n\r\n", "[message|1][message|2]");
}

static void test_ignored(void **state)
{
	expect_always(": ping\n\n", "");
	expect_always(": ping\ndata: 1\nid: 7\nretry: 5\nwhat: ever\n\n", "[message|1]");
	expect_always("event: alone\n\ndata: 1\n\n", "[message|1]"); /* no data, no event */
	expect_always("data: never ended\n", "");
	expect_always("\xEF\xBB\xBF"
		      "data: 1\n\n",
		"[message|1]");
	expect_always("\n\xEF\xBB\xBF"
		      "data: 1\n\n",
		""); /* only at the beginning */
}

static void test_long_name_is_cut(void **state)
{
	expect_always("event: 0123456789012345678901234567890123456789\ndata: 1\n\n",
		"[0123456789012345678901234567890|1]");
}

static void test_nul_in_data(void **state)
{
	static const char bytes[] = "data: a\0b\n\n";
	_cleanup_sse_ struct sse sse = sse_init(100);
	_cleanup_buf_ struct buf seen = buf_init(100);

	assert_int_equal(sse_feed(&sse, bytes, sizeof(bytes) - 1, on_event, &seen), 0);
	assert_string_equal(seen.data, "[message|a]"); /* as %.*s prints it */
}

static void test_bounds(void **state)
{
	_cleanup_sse_ struct sse line = sse_init(10), data = sse_init(10);
	_cleanup_buf_ struct buf seen = buf_init(100);

	assert_int_equal(sse_feed(&line, "data: 12345", 11, on_event, &seen), -EMSGSIZE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sse_feed(&data, "data: 123\n", 10, on_event, &seen), 0);
	assert_int_equal(sse_feed(&data, "data: 123\n", 10, on_event, &seen), -EMSGSIZE);
}

static int refuse(const struct sse_event *event, void *user)
{
	return -EPIPE;
}

static void test_callback_fails(void **state)
{
	_cleanup_sse_ struct sse sse = sse_init(100);

	assert_int_equal(sse_feed(&sse, "data: 1\n\ndata: 2\n\n", 18, refuse, NULL), -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_long_name_is_cut),
		cmocka_unit_test(test_nul_in_data),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_callback_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
