/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of the link against a scripted guest on the other end of a socket pair: streams,
 * windows, generations, and everything that a hostile guest may send.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "link/link.h"

enum {
	HELLO_BYTES = LINK_HEADER_BYTES + LINK_NONCE_BYTES + 4,
	PADDING = LIMIT_FRAME_BYTES + LINK_HEADER_BYTES,
};

/* A hub, a link, and the guest's end of its socket. */
struct pair {
	struct link_hub *hub;
	struct link *link;
	int guest_fd;
	uint8_t hello[HELLO_BYTES];
};

struct frame {
	enum link_type type;
	uint8_t arg;
	uint32_t stream;
	uint32_t length;
	char payload[LIMIT_FRAME_BYTES + 1]; /* NUL-terminated */
};

/* ---- the guest ---- */

static bool read_exactly(int fd, void *data, size_t len)
{
	return len == 0 || recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

/* False at the end of the link. */
static bool guest_read(int fd, struct frame *f)
{
	uint8_t h[LINK_HEADER_BYTES];

	if (!read_exactly(fd, h, sizeof(h)))
		return false;
	f->type = (enum link_type)h[1];
	f->arg = h[2];
	f->stream = link_get_u32(h + 4);
	f->length = link_get_u32(h + 8);
	assert_int_equal(h[0], LINK_MAGIC);
	assert_true(f->length <= LIMIT_FRAME_BYTES);
	f->payload[f->length] = '\0';
	return read_exactly(fd, f->payload, f->length);
}

static void guest_raw(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* the host has had enough */
		p += n;
		len -= (size_t)n;
	}
}

static void guest_send(int fd, enum link_type type, uint8_t arg, uint32_t stream, const void *data,
	size_t len)
{
	uint8_t h[LINK_HEADER_BYTES];

	link_encode_header(h, type, arg, stream, (uint32_t)len);
	guest_raw(fd, h, sizeof(h));
	guest_raw(fd, data, len);
}

static void guest_text(int fd, enum link_type type, uint8_t arg, uint32_t stream, const char *text)
{
	guest_send(fd, type, arg, stream, text, strlen(text));
}

static void guest_credit(int fd, uint32_t stream, uint32_t n)
{
	uint8_t payload[4];

	link_put_u32(payload, n);
	guest_send(fd, LINK_CREDIT, 0, stream, payload, sizeof(payload));
}

/* ---- setup ---- */

static struct pair *pair_new(bool padded)
{
	struct pair *p = xnew(struct pair);
	struct err err = {0};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	p->guest_fd = fds[1];
	assert_int_equal(link_hub_new(&p->hub, NULL), 0);
	if (link_new(p->hub, fds[0], padded, &p->link, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static int setup(void **state)
{
	struct pair *p = pair_new(false);

	assert_true(read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	guest_raw(p->guest_fd, p->hello, sizeof(p->hello));
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	link_unref(p->link);
	link_hub_free(p->hub);
	cleanup_close(&p->guest_fd);
	free(p);
	return 0;
}

static struct link_stream *open_stream(struct pair *p)
{
	struct link_stream *s = NULL;
	struct err err = {0};
	struct frame f;

	if (link_open(p->link, json_pack("{s:s}", "op", "test"), &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_OPEN);
	assert_string_equal(f.payload, "{\"op\":\"test\"}");
	return s;
}

/* ---- expectations ---- */

static void next_is(struct link_stream *s, struct link_event *ev, enum link_type type)
{
	struct err err = {0};

	if (link_next(s, ev, -1, -1, &err) != 1)
		fail_msg("%s", err.msg);
	assert_int_equal(ev->type, type);
}

static void data_is(struct link_stream *s, enum link_channel channel, const char *want)
{
	struct link_event ev;

	next_is(s, &ev, LINK_DATA);
	assert_int_equal(ev.channel, channel);
	assert_int_equal(ev.len, strlen(want));
	assert_memory_equal(ev.data, want, ev.len);
	link_event_done(s, &ev);
}

/* The event's JSON, as text without blanks. */
static void json_is(struct link_stream *s, enum link_type type, const char *want)
{
	_cleanup_free_ char *text = NULL;
	struct link_event ev;

	next_is(s, &ev, type);
	text = json_dumps(ev.json, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, want);
	link_event_done(s, &ev);
}

/* Reads what is queued, up to the end of the link. */
static void dies(struct link_stream *s, const char *why)
{
	struct err err = {0};
	struct link_event ev;
	int r;

	while ((r = link_next(s, &ev, -1, -1, &err)) > 0)
		link_event_done(s, &ev);
	assert_int_equal(r, -EPIPE);
	assert_int_equal(err.kind, ERR_SANDBOX_FAILED);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
}

#define BROKEN "its guest agent broke the link's protocol"

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
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, ""); /* nothing is not news */
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

/* ---- tests: a hostile guest ---- */

/* An event: `lead`, parts full of `fill` that are FILLED_BYTES in all, `end`. */
struct long_event {
	struct pair *p;
	const char *lead, *fill, *end;
	size_t window;
};

#define FILLED_BYTES (2 * (size_t)LIMIT_EVENT_VALUES)

static void send_part(struct long_event *e, uint8_t arg, const char *data, size_t len)
{
	static _Thread_local struct frame f;

	while (e->window < len && guest_read(e->p->guest_fd, &f))
		e->window += link_get_u32((const uint8_t *)f.payload);
	guest_send(e->p->guest_fd, LINK_EVENT, arg, 1, data, len);
	e->window -= len;
}

static void *send_long_event(void *arg)
{
	struct long_event *e = arg;
	size_t n = strlen(e->fill);
	char *part = xcalloc(1, LIMIT_FRAME_BYTES);

	for (size_t i = 0; i < LIMIT_FRAME_BYTES; i++)
		part[i] = e->fill[i % n];
	send_part(e, LINK_MORE, e->lead, strlen(e->lead));
	for (size_t sent = 0; sent < FILLED_BYTES; sent += LIMIT_FRAME_BYTES)
		send_part(e, LINK_MORE, part, LIMIT_FRAME_BYTES);
	send_part(e, 0, e->end, strlen(e->end));
	free(part);
	return NULL;
}

/* Values that cost far more than their text. */
static void test_too_many_values(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	struct long_event e = {p, "{\"a\":[", "[ ],", "0]}", LIMIT_STREAM_WINDOW};
	char want[64];
	pthread_t guest;

	(void)snprintf(want, sizeof(want), "{\"bytes\":%zu,\"type\":\"dropped\"}",
		FILLED_BYTES + strlen("{\"a\":[0]}"));
	assert_int_equal(pthread_create(&guest, NULL, send_long_event, &e), 0);
	json_is(s, LINK_EVENT, want);
	assert_int_equal(pthread_join(guest, NULL), 0);
}

/* Commas in strings are none. */
static void test_many_commas(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	struct long_event e = {p, "{\"\\\"a\":\"", ",", "\"}", LIMIT_STREAM_WINDOW};
	struct link_event ev;
	pthread_t guest;

	assert_int_equal(pthread_create(&guest, NULL, send_long_event, &e), 0);
	next_is(s, &ev, LINK_EVENT);
	assert_int_equal(json_string_length(json_object_get(ev.json, "\"a")), FILLED_BYTES);
	link_event_done(s, &ev);
	assert_int_equal(pthread_join(guest, NULL), 0);
}

/* Windows full of frames of one byte: each costs us a chunk. */
static void test_crumbs(void **state)
{
	struct pair *p = *state;
	struct link_stream *all[8];

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = open_stream(p);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		char frames[1024][LINK_HEADER_BYTES + 1] = {0};

		for (size_t k = 0; k < ARRAY_SIZE(frames); k++)
			link_encode_header((uint8_t *)frames[k], LINK_DATA, LINK_CH_STDOUT,
				(uint32_t)i + 1, 1);
		for (size_t n = 0; n < LIMIT_STREAM_WINDOW; n += ARRAY_SIZE(frames))
			guest_raw(p->guest_fd, frames, sizeof(frames));
	}
	dies(all[0], BROKEN);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		link_stream_free(all[i]);
}

static void test_window_exceeded(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);
	char *big = xcalloc(1, LIMIT_FRAME_BYTES);
	struct frame f;

	for (int i = 0; i < 4; i++)
		guest_send(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, big, LIMIT_FRAME_BYTES);
	guest_send(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, big, 1);
	free(big);
	assert_false(guest_read(p->guest_fd, &f)); /* nothing was read, so nothing is given back */
	dies(s, BROKEN);
}

static void test_too_much_credit(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_credit(p->guest_fd, 1, 1);
	dies(s, BROKEN);
}

static void test_short_credit(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_send(p->guest_fd, LINK_CREDIT, 0, 1, "\0\0", 2);
	dies(s, BROKEN);
}

/* Frames that need no window must not pile up either. */
static void test_two_ends(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_send(p->guest_fd, LINK_END, 0, 1, NULL, 0);
	guest_send(p->guest_fd, LINK_END, 0, 1, NULL, 0);
	dies(s, BROKEN);
}

static void test_end_with_payload(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_END, 0, 1, "x");
	dies(s, BROKEN);
}

static void test_empty_event(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_send(p->guest_fd, LINK_EVENT, LINK_MORE, 1, NULL, 0);
	dies(s, BROKEN);
}

static void test_after_close(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, "x");
	dies(s, BROKEN);
}

static void event_kills(void **state, enum link_type type, const char *text)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, type, 0, 1, text);
	dies(s, BROKEN);
}

static void test_event_no_json(void **state)
{
	event_kills(state, LINK_EVENT, "{");
}

static void test_event_no_object(void **state)
{
	event_kills(state, LINK_EVENT, "[1]");
}

static void test_close_no_json(void **state)
{
	event_kills(state, LINK_CLOSE, "\xFF");
}

static void test_close_no_answer(void **state)
{
	event_kills(state, LINK_CLOSE, "{\"ok\":1}");
}

static void test_close_half_error(void **state)
{
	event_kills(state, LINK_CLOSE, "{\"error\":{\"kind\":\"invalid\"}}");
}

static void test_bad_channel(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_DATA, 3, 1, "x");
	dies(s, BROKEN);
}

static void test_no_frame(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_raw(p->guest_fd, "Linux version", 13);
	dies(s, BROKEN);
}

static void test_guest_opens(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_OPEN, 0, 1, "{}");
	dies(s, BROKEN);
}

static void test_hello_twice(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_raw(p->guest_fd, p->hello, sizeof(p->hello));
	dies(s, BROKEN);
}

/* A dead link stays dead, and says so at once. */
static void test_after_death(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p), *more = NULL;
	struct err err = {0};

	link_fail(p->link, "its kernel panicked");
	link_fail(p->link, "a later reason");
	dies(s, "its kernel panicked");
	assert_int_equal(link_send(s, "x", 1, -1, -1, &err), -EPIPE);
	assert_int_equal(link_end(s, &err), -EPIPE);
	assert_int_equal(link_control(s, json_object(), &err), -EPIPE);
	assert_int_equal(link_open(p->link, json_object(), &more, &err), -EPIPE);
	assert_int_equal(link_call(p->link, json_object(), 10000, -1, NULL, &err), -EPIPE);
	assert_non_null(strstr(err.msg, "its kernel panicked"));
	assert_null(more);
}

struct waiter {
	pthread_t thread;
	struct link_stream *s;
	int r;
};

static void *wait_next(void *arg)
{
	struct waiter *w = arg;
	struct link_event ev;

	w->r = link_next(w->s, &ev, -1, -1, NULL);
	return NULL;
}

static void test_death_wakes_all(void **state)
{
	struct pair *p = *state;
	struct waiter all[16];

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		all[i].s = open_stream(p);
		assert_int_equal(pthread_create(&all[i].thread, NULL, wait_next, &all[i]), 0);
	}
	(void)close(steal_fd(&p->guest_fd));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(pthread_join(all[i].thread, NULL), 0);
		assert_int_equal(all[i].r, -EPIPE);
		link_stream_free(all[i].s);
	}
}

static void note_death(void *user, const char *why)
{
	*(char **)user = strdup(why);
}

static void test_on_dead(void **state)
{
	struct pair *p = *state;
	_cleanup_free_ char *late = NULL;
	char *why = NULL, *never = NULL;

	link_on_dead(p->link, note_death, &never);
	link_on_dead(p->link, note_death, &why);
	link_fail(p->link, "first");
	assert_string_equal(why, "first");
	free(steal_ptr(&why));
	link_fail(p->link, "second");
	assert_null(why);
	assert_null(never);
	link_on_dead(p->link, note_death, &late);
	assert_string_equal(late, "first");
	link_on_dead(p->link, NULL, NULL);
}

/* What came before the death is still there. */
static void test_death_after_close(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, "last words");
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	(void)close(steal_fd(&p->guest_fd));
	data_is(s, LINK_CH_STDOUT, "last words");
	json_is(s, LINK_CLOSE, "{}");
	dies(s, "its machine closed the link");
}

/* ---- tests: generations ---- */

static void read_padded_hello(struct pair *p)
{
	uint8_t *zeros = xcalloc(1, PADDING);

	assert_true(read_exactly(p->guest_fd, zeros, PADDING));
	for (size_t i = 0; i < PADDING; i++)
		assert_int_equal(zeros[i], 0);
	assert_true(read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	free(zeros);
}

/* All that an earlier host's guest may have left in the way: noise, frames, half of one, an old HELLO. */
static void test_resync(void **state)
{
	struct pair *p = pair_new(true);
	struct link_stream *s;
	uint8_t old[HELLO_BYTES], zeros[100] = {0};
	void *own = p;

	read_padded_hello(p);
	s = open_stream(p);
	memcpy(old, p->hello, sizeof(old));
	old[LINK_HEADER_BYTES] ^= 1;
	guest_raw(p->guest_fd, "no frame at all \xA5\xA5\xA5", 19);
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{\"wrong\":1}}");
	guest_raw(p->guest_fd, old, sizeof(old));
	guest_raw(p->guest_fd, p->hello, sizeof(p->hello) - 1); /* all but one byte */
	guest_raw(p->guest_fd, p->hello, 20);
	guest_raw(p->guest_fd, p->hello, sizeof(p->hello));
	guest_raw(p->guest_fd, zeros,
		sizeof(zeros)); /* padding is allowed anywhere between frames */
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{\"right\":1}}");
	json_is(s, LINK_CLOSE, "{\"right\":1}");
	link_stream_free(s);
	teardown(&own);
}

/* The answer comes a byte at a time. */
static void test_resync_slowly(void **state)
{
	struct pair *p = pair_new(false);
	struct link_stream *s;
	void *own = p;

	assert_true(read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	s = open_stream(p);
	guest_raw(p->guest_fd, "xyz", 3);
	for (size_t i = 0; i < sizeof(p->hello); i++)
		guest_raw(p->guest_fd, p->hello + i, 1);
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	json_is(s, LINK_CLOSE, "{}");
	link_stream_free(s);
	teardown(&own);
}

static void test_resync_never(void **state)
{
	struct pair *p = pair_new(false);
	struct link_stream *s;
	char *noise = xcalloc(1, MIB(1));
	void *own = p;

	assert_true(read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	s = open_stream(p);
	memset(noise, 0xA5, MIB(1));
	for (int i = 0; i < 20; i++)
		guest_raw(p->guest_fd, noise, MIB(1));
	free(noise);
	dies(s, BROKEN);
	link_stream_free(s);
	teardown(&own);
}

static void test_dead_from_the_start(void **state)
{
	struct link_hub *hub = NULL;
	struct link *link = NULL;
	struct err err = {0};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	(void)close(fds[1]);
	assert_int_equal(link_hub_new(&hub, NULL), 0);
	assert_true(link_new(hub, fds[0], true, &link, &err) < 0);
	assert_null(link);
	assert_int_equal(close(fds[0]), -1); /* it was taken */
	link_hub_free(hub);
}

/* ---- tests: calls, threads ---- */

/* Answers each OPEN with what it asks for; numbers must rise, or the real guest would drop the request. */
static void *echo(void *arg)
{
	static _Thread_local struct frame f;
	static char answer[LIMIT_FRAME_BYTES + 64];
	struct pair *p = arg;
	uint32_t last = 0;

	while (guest_read(p->guest_fd, &f)) {

		if (f.type != LINK_OPEN)
			continue;
		if (f.stream <= last)
			return p; /* a complaint */
		last = f.stream;
		if (strstr(f.payload, "silence"))
			continue;
		if (strstr(f.payload, "refuse"))
			(void)snprintf(answer, sizeof(answer),
				"{\"error\":{\"kind\":\"denied\",\"message\":\"no\"}}");
		else
			(void)snprintf(answer, sizeof(answer), "{\"ok\":%s}", f.payload);
		guest_text(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, f.stream, "noise");
		guest_text(p->guest_fd, LINK_CLOSE, 0, f.stream, answer);
	}
	return NULL;
}

static void stop_echo(struct pair *p, pthread_t guest)
{
	void *complaint;

	link_fail(p->link, "over");
	assert_int_equal(pthread_join(guest, &complaint), 0);
	assert_null(complaint);
}

static void test_call(void **state)
{
	struct pair *p = *state;
	struct err err = {0};
	json_t *ret = NULL;
	pthread_t guest;

	assert_int_equal(pthread_create(&guest, NULL, echo, p), 0);
	assert_int_equal(link_call(p->link, json_pack("{s:i}", "n", 7), 60000, -1, &ret, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(ret, "n")), 7);
	json_decref(ret);
	ret = NULL;
	assert_int_equal(link_call(p->link, json_pack("{s:i}", "n", 7), 60000, -1, NULL, &err), 0);
	assert_int_equal(link_call(p->link, json_pack("{s:s}", "op", "refuse"), 60000, -1, &ret,
				 &err),
		-EREMOTEIO);
	assert_string_equal(err.msg, "no");
	assert_int_equal(link_call(p->link, json_pack("{s:s}", "op", "silence"), 5, -1, &ret, &err),
		-ETIMEDOUT);
	assert_int_equal(err.kind, ERR_TIMEOUT);
	assert_null(ret);
	stop_echo(p, guest);
}

struct caller {
	pthread_t thread;
	struct pair *p;
	int number;
	int wrong;
};

static void *call_often(void *arg)
{
	struct caller *c = arg;

	for (int i = 0; i < 50; i++) {
		json_t *ret = NULL;
		int n = c->number * 1000 + i;

		if (link_call(c->p->link, json_pack("{s:i}", "n", n), 60000, -1, &ret, NULL) < 0 ||
			json_integer_value(json_object_get(ret, "n")) != n)
			c->wrong++;
		json_decref(ret);
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	struct pair *p = *state;
	struct caller all[16] = {0};
	pthread_t guest;

	assert_int_equal(pthread_create(&guest, NULL, echo, p), 0);
	for (int i = 0; i < 16; i++) {
		all[i].p = p;
		all[i].number = i;
		assert_int_equal(pthread_create(&all[i].thread, NULL, call_often, &all[i]), 0);
	}
	for (int i = 0; i < 16; i++) {
		assert_int_equal(pthread_join(all[i].thread, NULL), 0);
		assert_int_equal(all[i].wrong, 0);
	}
	stop_echo(p, guest);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_open_and_close),
		T(test_data),
		T(test_event_in_parts),
		T(test_guest_errors),
		T(test_request_in_parts),
		T(test_request_too_long),
		T(test_stream_limit),
		T(test_cancel),
		T(test_deadline),
		T(test_hang_up),
		T(test_window_is_honoured),
		T(test_controls),
		T(test_send_to_closed),
		T(test_credit_is_given),
		T(test_oversize_event),
		T(test_too_many_values),
		T(test_many_commas),
		T(test_crumbs),
		T(test_window_exceeded),
		T(test_too_much_credit),
		T(test_short_credit),
		T(test_two_ends),
		T(test_end_with_payload),
		T(test_empty_event),
		T(test_after_close),
		T(test_event_no_json),
		T(test_event_no_object),
		T(test_close_no_json),
		T(test_close_no_answer),
		T(test_close_half_error),
		T(test_bad_channel),
		T(test_no_frame),
		T(test_guest_opens),
		T(test_hello_twice),
		T(test_after_death),
		T(test_death_wakes_all),
		T(test_on_dead),
		T(test_death_after_close),
		cmocka_unit_test(test_resync),
		cmocka_unit_test(test_resync_slowly),
		cmocka_unit_test(test_resync_never),
		cmocka_unit_test(test_dead_from_the_start),
		T(test_call),
		T(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
