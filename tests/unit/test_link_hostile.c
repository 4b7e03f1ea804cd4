/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a link against a hostile guest: everything that it can send and must not. */
#include <pthread.h>

#include "link_guest.h"

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

static void test_empty_credit(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_credit(p->guest_fd, 1, 0);
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

static void test_empty_data(void **state)
{
	struct pair *p = *state;
	_cleanup_stream_ struct link_stream *s = open_stream(p);

	guest_send(p->guest_fd, LINK_DATA, LINK_CH_STDOUT, 1, NULL, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_too_many_values),
		link_guest_test(test_many_commas),
		link_guest_test(test_crumbs),
		link_guest_test(test_window_exceeded),
		link_guest_test(test_too_much_credit),
		link_guest_test(test_short_credit),
		link_guest_test(test_empty_credit),
		link_guest_test(test_two_ends),
		link_guest_test(test_end_with_payload),
		link_guest_test(test_empty_data),
		link_guest_test(test_empty_event),
		link_guest_test(test_after_close),
		link_guest_test(test_event_no_json),
		link_guest_test(test_event_no_object),
		link_guest_test(test_close_no_json),
		link_guest_test(test_close_no_answer),
		link_guest_test(test_close_half_error),
		link_guest_test(test_bad_channel),
		link_guest_test(test_no_frame),
		link_guest_test(test_guest_opens),
		link_guest_test(test_hello_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
