/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: their form, in pieces of any size, and within their bound. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "http/sse.h"

static void takes(struct sse *s, size_t step, const char *want)
{
	char got[512];
	size_t len = 0, n;

	while ((n = sse_take(s, got + len, MIN(step, sizeof(got) - 1 - len))) > 0)
		len += n;
	got[len] = '\0';
	assert_string_equal(got, want);
	assert_true(sse_empty(s));
}

static void test_form(void **state)
{
	struct sse s = sse_init(KIB(1));
	struct err err;

	assert_true(sse_empty(&s));
	for (size_t step = 1; step < 64; step += 20) {
		assert_int_equal(sse_emit(&s, "a", json_pack("{s:s}", "x", "\n\r\u00e9"), &err), 0);
		assert_int_equal(sse_ping(&s), 0);
		assert_int_equal(sse_emit(&s, "b", json_object(), &err), 0);
		assert_false(sse_empty(&s));
		takes(&s, step,
			"event: a\ndata: {\"x\":\"\\n\\r\\u00E9\"}\n\n: ping\n\nevent: b\ndata: {}\n\n");
	}
	sse_done(&s);
}

static void test_bound(void **state)
{
	struct sse s = sse_init(64);
	struct err err;
	char text[80];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(sse_emit(&s, "a", json_object(), &err), 0);
	assert_int_equal(sse_emit(&s, "b", json_pack("{s:s}", "x", text), &err), -EMSGSIZE);
	assert_int_equal(err.kind, ERR_TOO_LARGE);
	assert_int_equal(sse_emit(&s, "c", NULL, &err), -EMSGSIZE);
	assert_int_equal(sse_emit(&s, "d", json_object(), &err), 0);
	takes(&s, 1000, "event: a\ndata: {}\n\nevent: d\ndata: {}\n\n");
	sse_done(&s);
}

static void test_memory(void **state)
{
	struct sse s = sse_init(MIB(1));
	_cleanup_free_ char *text = xcalloc(1, KIB(200)), *dst = xcalloc(1, KIB(400));

	memset(text, 'x', KIB(200) - 1);
	assert_int_equal(sse_emit(&s, "a", json_pack("{s:s}", "x", text), NULL), 0);
	assert_true(sse_take(&s, dst, KIB(400)) > KIB(200));
	assert_true(sse_empty(&s));
	assert_null(s.out.data);
	assert_int_equal(sse_emit(&s, "b", json_object(), NULL), 0);
	takes(&s, 1000, "event: b\ndata: {}\n\n");
	sse_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
