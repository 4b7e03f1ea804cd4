/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of servers, in one piece and byte by byte: how long a body is, and what is no answer. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "http/answer.h"
#include "http/headers.h"

struct got {
	int status;
	int64_t body_len;
	char body[256];
	size_t n;
	bool over;
	bool upgraded;
	char rest[64]; /* behind an upgrade's head */
};

/* Feeds it in pieces; `ends`: then the server's end. 0 or what the parser said. */
static int parse(struct answer *a, const char *text, size_t len, size_t piece, bool ends,
	struct got *ret)
{
	const struct answer_facts *facts = answer_facts(a);
	size_t at = 0, n;
	ssize_t r;

	*ret = (struct got){0};
	while (at < len && !facts->over) {
		size_t give = MIN(piece, len - at);

		if (!facts->head) {
			r = answer_head(a, text + at, give);
		} else if (facts->upgraded) {
			memcpy(ret->rest, text + at, len - at);
			break;
		} else {
			r = answer_body(a, text + at, give, ret->body + ret->n, &n);
			assert_true(r < 0 || n <= (size_t)r);
			ret->n += r < 0 ? 0 : n;
		}
		if (r < 0)
			return (int)r;
		at += (size_t)r;
	}
	if (ends && answer_end(a) < 0)
		return -EPROTO;
	ret->status = facts->status;
	ret->body_len = facts->body_len;
	ret->over = facts->over;
	ret->upgraded = facts->upgraded;
	return 0;
}

static void is(const char *text, bool no_body, bool ends, int status, int64_t body_len,
	const char *body)
{
	for (size_t piece = 1; piece < 300; piece += 7) {
		struct answer *a = answer_new(no_body, false);
		struct got got;

		if (parse(a, text, strlen(text), piece, ends, &got) < 0)
			fail_msg("refused: %s: %s", text, answer_facts(a)->why);
		assert_int_equal(got.status, status);
		assert_int_equal(got.body_len, body_len);
		assert_string_equal(got.body, body);
		assert_true(got.over);
		answer_free(a);
	}
}

static void test_lengths(void **state)
{
	is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, false, 200, 5, "hello");
	is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more", false, false, 200, 5,
		"hello");
	is("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
		false, false, 200, -1, "hello");
	is("HTTP/1.0 200 OK\r\n\r\nhello", false, true, 200, -1, "hello");
	is("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false, true, 200, -1, "");
	is("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, true, 200, 0, "");
	is("HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", false, false, 404, 2, "no");
	is("HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nno", false, false, 999, 2, "no");
}

static void test_bodies_that_are_none(void **state)
{
	is("HTTP/1.1 204 No Content\r\n\r\n", false, false, 204, 0, "");
	is("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", false, false, 204, 5, "");
	is("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", false, false, 304, 5, "");
	is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, false, 200, 5, "");
	is("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, false, 200, 0, "");
	is("HTTP/1.1 200 OK\r\n\r\n", true, false, 200, 0, "");
}

static void test_informational(void **state)
{
	is("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		false, false, 200, 2, "ok");
}

/* Servers of a few lines end theirs with LF alone. */
static void test_line_ends(void **state)
{
	is("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", false, false, 200, 2, "ok");
	is("HTTP/1.0 200 OK\n\nok", false, true, 200, -1, "ok");
}

static void test_headers(void **state)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nA: 1\r\nEmpty:\r\nA:  2 \t\r\nB:\xE4\r\n\r\n";

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct answer *a = answer_new(true, false);
		const struct buf *headers = &answer_facts(a)->headers;
		struct got got;

		assert_int_equal(parse(a, text, strlen(text), piece, false, &got), 0);
		assert_int_equal(headers->len, 19);
		assert_memory_equal(headers->data,
			"A\0"
			"1\0"
			"Empty\0"
			"\0"
			"A\0"
			"2\0"
			"B\0"
			"\xE4",
			19);
		answer_free(a);
	}
}

static void refused(const char *text, size_t len, bool ends)
{
	for (size_t piece = 1; piece < 70000; piece = piece * 3 + 1) {
		struct answer *a = answer_new(false, false);
		struct got got;

		if (parse(a, text, len, piece, ends, &got) != -EPROTO)
			fail_msg("accepted: %.*s", (int)MIN(len, (size_t)200), text);
		assert_non_null(answer_facts(a)->why);
		answer_free(a);
	}
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"SSH-2.0-OpenSSH_9.2\r\n",
		"\x16\x03\x01\x02",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 20x OK\r\n\r\n",
		"HTTP/x.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: c\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 199 Body\r\nTransfer-Encoding: other\r\n\r\nhello",
		"HTTP/1.1 100 Body\r\nContent-Length: 5\r\n\r\nhello",
		/* How long is it? */
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refused(bad[i], strlen(bad[i]), false);
	refused("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", 28, false);
}

static void test_ends_too_early(void **state)
{
	static const char *const cut[] = {
		"",
		"HTTP/1.1 200",
		"HTTP/1.1 200 OK\r\nA: b\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cut); i++)
		refused(cut[i], strlen(cut[i]), true);
}

/* What repeats for ever behind a beginning. */
static void endless(const char *begin, const char *again)
{
	_cleanup_buf_ struct buf text = buf_init(4 * LIMIT_ANSWER_HEAD_BYTES);

	assert_int_equal(buf_append(&text, begin, strlen(begin)), 0);
	while (buf_append(&text, again, strlen(again)) == 0)
		;
	refused(text.data, text.len, false);
}

static void test_endless(void **state)
{
	endless("HTTP/1.1 200 OK\r\n", "X-Header: 0123456789\r\n");
	endless("HTTP/1.1 200 OK\r\n", "A:\r\n");
	endless("HTTP/1.1 200 OK\r\nX: ", "0123456789");
	endless("HTTP/1.1 200 OK\r\nX", "0123456789");
	endless("HTTP/1.1 200 ", "OK");
	endless("", "HTTP/1.1 100 Continue\r\n\r\n");
	endless("", "\r\n");
}

static void test_upgrade(void **state)
{
	static const char text[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
				   "Upgrade: websocket\r\nContent-Length: 3\r\n\r\n\x81\x05HTTP/";

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct answer *a = answer_new(false, true);
		struct got got;

		assert_int_equal(parse(a, text, strlen(text), piece, false, &got), 0);
		assert_int_equal(got.status, 101);
		assert_true(got.upgraded);
		assert_string_equal(got.rest, "\x81\x05HTTP/");
		assert_string_equal(headers_get(&answer_facts(a)->headers, "Upgrade"), "websocket");
		answer_free(a);
	}
}

/* A server may refuse to. */
static void test_no_upgrade(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"
				   "Content-Length: 2\r\n\r\nok";
	struct answer *a = answer_new(false, true);
	struct got got;

	assert_int_equal(parse(a, text, strlen(text), 1000, false, &got), 0);
	assert_int_equal(got.status, 200);
	assert_false(got.upgraded);
	assert_string_equal(got.body, "ok");
	answer_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_bodies_that_are_none),
		cmocka_unit_test(test_informational),
		cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_ends_too_early),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_no_upgrade),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
