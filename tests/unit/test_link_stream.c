/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a link against a scripted guest: data, events, errors, limits, cancelling, and windows. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "link_guest.h"

/* ---- tests: streams ---- */

static void test_open_and_close(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *a = open_stream(p), *b = open_stream(p);

	guest_text(p->guest_fd, LINK_CLOSE, 0, 2, "{\"ok\":{\"n\":2}}");
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{\"n\":1}}");
	json_is(a, LINK_CLOSE, "{\"n\":1}");
	json_is(b, LINK_CLOSE, "{\"n\":2}");
}

static void test_data(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	struct link_event ev;

	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDERR, 1, "err");
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, "out");
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_BODY, 99, "for nobody");
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "body");
	guest_send(p->guest_fd, LINK_END, 0, 1, NULL, 0);
	data_is(s, LINK_CH_STDERR, "err");
	data_is(s, LINK_CH_STDOUT, "out");
	data_is(s, LINK_CH_BODY, "body");
	next_is(s, &ev, LINK_END);
	link_event_done(s, &ev);
}

static void test_event_in_parts(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_EVENT, LINK_MORE, 1, "{\"a\":");
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, "between");
	guest_text(p->guest_fd, LINK_EVENT, LINK_MORE, 1, "[1,");
	guest_text(p->guest_fd, LINK_EVENT, 0, 1, "2]}");
	guest_text(p->guest_fd, LINK_EVENT, 0, 1, "{}");
	data_is(s, LINK_CH_STDOUT, "between");
	json_is(s, LINK_EVENT, "{\"a\":[1,2]}");
	json_is(s, LINK_EVENT, "{}");
}

static void fails_with(struct pair *p, const char *answer, enum err_kind kind, const char *msg)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	struct err err = {0};
	struct link_event ev;
	struct frame f;

	assert_int_equal(link_open(p->link, json_object(), &s, NULL), 0);
	assert_true(guest_read(p->guest_fd, &f));
	guest_text(p->guest_fd, LINK_CLOSE, 0, f.stream, answer);
	assert_int_equal(link_next(s, &ev, -1, -1, &err), -EREMOTEIO);
	assert_int_equal(err.kind, kind);
	assert_string_equal(err.msg, msg);
}

static void test_guest_errors(void **state)
{
	fails_with(*state, "{\"error\":{\"kind\":\"not_found\",\"message\":\"no such file: /x\"}}",
		ERR_FILE_NOT_FOUND, "no such file: /x");
	fails_with(*state, "{\"error\":{\"kind\":\"invalid\",\"message\":\"a\\nb\\u001b[2J\"}}",
		ERR_INVALID, "a?b?[2J");
	fails_with(*state, "{\"error\":{\"kind\":\"busy\",\"message\":\"\"}}", ERR_CONFLICT, "");
	fails_with(*state, "{\"error\":{\"kind\":\"no_space\",\"message\":\"x\"}}", ERR_NO_SPACE,
		"x");
	fails_with(*state, "{\"error\":{\"kind\":\"limit\",\"message\":\"x\"}}", ERR_TOO_MANY, "x");
	fails_with(*state, "{\"error\":{\"kind\":\"unsupported\",\"message\":\"x\"}}",
		ERR_UNSUPPORTED, "x");
	fails_with(*state, "{\"error\":{\"kind\":\"never heard of\",\"message\":\"x\"}}",
		ERR_INTERNAL, "x");
}

static void test_request_in_parts(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = NULL;
	char *big = xcalloc(1, 100001);
	struct frame f;

	memset(big, 'x', 100000);
	assert_int_equal(link_open(p->link, json_pack("{s:s}", "cmd", big), &s, NULL), 0);
	free(big);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.arg, LINK_MORE);
	assert_int_equal(f.length, LIMIT_FRAME_BYTES);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_OPEN);
	assert_int_equal(f.arg, 0);
	assert_int_equal(f.length, 100000 + strlen("{\"cmd\":\"\"}") - LIMIT_FRAME_BYTES);
}

static void test_request_too_long(void **state)
{
	struct pair *p = *state;
	struct link_stream *s = NULL;
	char *big = xcalloc(1, LIMIT_OPEN_BYTES);
	struct err err = {0};

	memset(big, 'x', LIMIT_OPEN_BYTES - 1);
	assert_int_equal(link_open(p->link, json_pack("{s:s}", "cmd", big), &s, &err), -EMSGSIZE);
	assert_int_equal(err.kind, ERR_TOO_LARGE);
	free(big);
	s = open_stream(p); /* the next frame is this one's: the guest heard nothing of the other */
	link_stream_free(s);
}

static void test_stream_limit(void **state)
{
	struct pair *p = *state;
	struct link_stream *all[LIMIT_STREAMS], *more = NULL;
	struct err err = {0};
	struct frame f;

	for (size_t i = 0; i < LIMIT_STREAMS; i++)
		all[i] = open_stream(p);
	assert_int_equal(link_open(p->link, json_object(), &more, &err), -EAGAIN);
	assert_int_equal(err.kind, ERR_TOO_MANY);
	link_stream_free(all[7]);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_CLOSE);
	assert_int_equal(f.stream, 8);
	all[7] = open_stream(p);
	for (size_t i = 0; i < LIMIT_STREAMS; i++)
		link_stream_free(all[i]);
}

/* Freed while it runs: cancelled. Freed after its end: nothing is said. */
static void test_cancel(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *last = NULL;
	struct link_stream *s = open_stream(p);
	struct frame f;

	link_cancel(s);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_CLOSE);
	assert_int_equal(f.length, 0);
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	json_is(s, LINK_CLOSE, "{}");
	link_stream_free(s);
	s = open_stream(p);
	link_stream_free(s);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_CLOSE);
	assert_int_equal(f.stream, 2);
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 2, "crossed with the cancel");
	last = open_stream(p);
	assert_non_null(last);
}

static void test_deadline(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	int64_t before = clock_mono_ms();
	struct link_event ev;

	assert_int_equal(link_next(s, &ev, before - 1, -1, NULL), 0);
	assert_int_equal(link_next(s, &ev, before + 20, -1, NULL), 0);
	assert_true(clock_mono_ms() >= before + 20);
}

static void test_hang_up(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char *big = xcalloc(1, LIMIT_STREAM_WINDOW);
	struct link_event ev;
	struct err err = {0};
	struct frame f;
	int client[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client), 0);
	assert_int_equal(link_next(s, &ev, clock_mono_ms() + 5, client[0], NULL), 0);
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, "x");
	data_is(s, LINK_CH_STDOUT, "x");
	(void)close(client[1]);
	assert_int_equal(link_next(s, &ev, -1, client[0], &err), -ECONNRESET);
	for (int i = 0; i < 3;
		i++) { /* most of the window, a piece at a time, so that no buffer fills */
		assert_int_equal(link_send(s, big, LIMIT_FRAME_BYTES, -1, -1, NULL), 0);
		assert_true(guest_read(p->guest_fd, &f));
	}
	assert_int_equal(link_send(s, big, LIMIT_FRAME_BYTES, -1, client[0], &err), -ECONNRESET);
	assert_int_equal(link_call(p->link, json_object(), 60000, client[0], NULL, &err),
		-ECONNRESET);
	(void)close(client[0]);
	free(big);
}

/* ---- tests: windows ---- */

/* Counts the DATA bytes up to an END. */
static void *count_data(void *arg)
{
	static _Thread_local struct frame f;
	struct pair *p = arg;
	size_t total = 0;

	while (guest_read(p->guest_fd, &f) && f.type != LINK_END) {
		assert_int_equal(f.type, LINK_DATA);
		total += f.length;
	}
	return (void *)(uintptr_t)total;
}

static void test_window_is_honoured(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char *big = xcalloc(2, LIMIT_STREAM_WINDOW);
	struct err err = {0};
	pthread_t guest;
	void *total;

	assert_int_equal(pthread_create(&guest, NULL, count_data, p), 0);
	assert_int_equal(link_send(s, big, KIB(512), clock_mono_ms() + 20, -1, &err), -ETIMEDOUT);
	assert_int_equal(err.kind, ERR_TIMEOUT);
	assert_int_equal(link_end(s, NULL), 0);
	assert_int_equal(pthread_join(guest, &total), 0);
	assert_in_range((uintptr_t)total, LIMIT_STREAM_WINDOW - KIB(16), LIMIT_STREAM_WINDOW);

	assert_int_equal(pthread_create(&guest, NULL, count_data, p), 0);
	guest_credit(p->guest_fd, 1, KIB(64));
	assert_int_equal(link_send(s, big, KIB(64), -1, -1, NULL), 0);
	assert_int_equal(link_end(s, NULL), 0);
	assert_int_equal(pthread_join(guest, &total), 0);
	assert_int_equal((uintptr_t)total, KIB(64));
	free(big);
}

/* Controls get through where stdin is full, and count: the guest's credit for them is no surprise. */
static void test_controls(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char *big = xcalloc(1, LIMIT_STREAM_WINDOW);
	uint32_t sent = 0;
	struct frame f;
	pthread_t guest;
	int r;

	assert_int_equal(pthread_create(&guest, NULL, count_data, p), 0);
	assert_int_equal(link_send(s, big, LIMIT_STREAM_WINDOW, clock_mono_ms() + 5, -1, NULL),
		-ETIMEDOUT);
	assert_int_equal(link_end(s, NULL), 0);
	assert_int_equal(pthread_join(guest, NULL), 0);
	while ((r = link_control(s, json_pack("{s:b}", "interrupt", 1), NULL)) == 0) {
		assert_true(guest_read(p->guest_fd, &f));
		assert_int_equal(f.type, LINK_EVENT);
		assert_string_equal(f.payload, "{\"interrupt\":true}");
		sent += f.length;
	}
	assert_int_equal(r, -EAGAIN);
	assert_true(sent > KIB(3));
	guest_credit(p->guest_fd, 1, KIB(252) + sent); /* all that is open */
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	json_is(s, LINK_CLOSE, "{}");
	free(big);
}

static void test_send_to_closed(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	struct err err = {0};
	char *big = xcalloc(1, LIMIT_STREAM_WINDOW);
	struct frame f;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(link_send(s, big, LIMIT_FRAME_BYTES, -1, -1, NULL), 0);
		assert_true(guest_read(p->guest_fd, &f));
	}
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	/* No credit comes: only the CLOSE can end this. */
	assert_int_equal(link_send(s, big, LIMIT_FRAME_BYTES, -1, -1, &err), -ECANCELED);
	json_is(s, LINK_CLOSE, "{}");
	free(big);
}

/* What was read is given back, before the window is empty. */
static void test_credit_is_given(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char *big = xcalloc(1, LIMIT_FRAME_BYTES);
	struct link_event ev;
	uint32_t given = 0;
	struct frame f;

	for (int i = 0; i < 40; i++) {
		guest_send(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, big, LIMIT_FRAME_BYTES);
		next_is(s, &ev, LINK_DATA);
		link_event_done(s, &ev);
		assert_true(guest_read(p->guest_fd, &f));
		assert_int_equal(f.type, LINK_CREDIT);
		given += link_get_u32((const uint8_t *)f.payload);
	}
	assert_int_equal(given, 40 * LIMIT_FRAME_BYTES);
	free(big);
}

/* Sends an event of more than LIMIT_EVENT_BYTES within the window, then a small one. */
static void *send_oversize(void *arg)
{
	static _Thread_local struct frame f;
	struct pair *p = arg;
	size_t window = LIMIT_STREAM_WINDOW, left = LIMIT_EVENT_BYTES + 12345;
	char *x = xcalloc(1, LIMIT_FRAME_BYTES);

	while (left > 0) {
		size_t n = MIN(left, LIMIT_FRAME_BYTES);

		while (window < n && guest_read(p->guest_fd, &f))
			window += link_get_u32((const uint8_t *)f.payload);
		guest_send(p->guest_fd, LINK_EVENT, left > n ? LINK_MORE : 0, 1, x, n);
		window -= n;
		left -= n;
	}
	guest_text(p->guest_fd, LINK_EVENT, 0, 1, "{\"small\":1}");
	free(x);
	return NULL;
}

static void test_oversize_event(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char want[64];
	pthread_t guest;

	(void)snprintf(want, sizeof(want), "{\"bytes\":%zu,\"type\":\"dropped\"}",
		LIMIT_EVENT_BYTES + 12345);
	assert_int_equal(pthread_create(&guest, NULL, send_oversize, p), 0);
	json_is(s, LINK_EVENT, want);
	json_is(s, LINK_EVENT, "{\"small\":1}");
	assert_int_equal(pthread_join(guest, NULL), 0);
}

/* ---- tests: by poll() ---- */

static bool has_news(struct link_stream *s, int timeout_ms)
{
	struct pollfd p = {.fd = link_stream_fd(s), .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

static void test_poll(void **state)
{
	static const char data[1000];
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	size_t room = link_stream_room(s);
	struct link_event ev;
	struct frame f;

	assert_false(has_news(s, 0));
	assert_int_equal(link_next(s, &ev, 0, -1, NULL), 0);
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "x");
	assert_true(has_news(s, -1));
	link_stream_clear(s);
	assert_false(has_news(s, 0));
	assert_int_equal(link_next(s, &ev, 0, -1, NULL), 1);
	assert_int_equal(ev.len, 1);
	link_event_done(s, &ev);
	assert_int_equal(link_next(s, &ev, 0, -1, NULL), 0);

	assert_true(room > 0 && room < LIMIT_STREAM_WINDOW);
	assert_int_equal(link_send(s, data, sizeof(data), 0, -1, NULL), 0);
	assert_int_equal(link_stream_room(s), room - sizeof(data));
	assert_true(guest_read(p->guest_fd, &f));
	guest_credit(p->guest_fd, 1, sizeof(data));
	assert_true(has_news(s, -1));
	assert_int_equal(link_stream_room(s), room);
	link_stream_clear(s);
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	assert_true(has_news(s, -1));
	assert_int_equal(link_stream_room(s), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_open_and_close),
		link_guest_test(test_data),
		link_guest_test(test_event_in_parts),
		link_guest_test(test_guest_errors),
		link_guest_test(test_request_in_parts),
		link_guest_test(test_request_too_long),
		link_guest_test(test_stream_limit),
		link_guest_test(test_cancel),
		link_guest_test(test_deadline),
		link_guest_test(test_hang_up),
		link_guest_test(test_window_is_honoured),
		link_guest_test(test_controls),
		link_guest_test(test_send_to_closed),
		link_guest_test(test_credit_is_given),
		link_guest_test(test_oversize_event),
		link_guest_test(test_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
