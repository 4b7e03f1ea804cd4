/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket joined to a stream, in a thread as a connection has it: the client and the guest are the test's. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "http/ws_bridge.h"
#include "link_guest.h"

struct ends {
	struct pair *p;
	struct http_stats stats;
	struct ws_bridge *bridge;
	struct websocket *client;
	struct buf text, bytes; /* which the client heard; a text with a '|' behind it */
	int ours, theirs;
	pthread_t thread;
};

/* ---- the route: {"in": text} is for the guest, {"end": true} its end; all else is refused ---- */

static int on_message(struct ws_bridge *b, const json_t *message, struct err *err)
{
	const char *in = json_string_value(json_object_get(message, "in"));

	if (in)
		ws_bridge_push(b, in, strlen(in));
	else if (json_is_true(json_object_get(message, "end")))
		ws_bridge_end(b);
	else
		return err_set(err, ERR_INVALID, -EINVAL, "what is that?");
	return 0;
}

static void on_end(struct ws_bridge *b)
{
	ws_bridge_say(b, json_pack("{s:b}", "ended", true));
}

static void on_close(struct ws_bridge *b, const json_t *ok)
{
	ws_bridge_say(b, json_pack("{s:O}", "answer", ok));
}

static const struct ws_bridge_ops ops = {on_message, on_end, on_close};

/* ---- the client ---- */

static void client_on_text(void *user, const char *text, size_t len)
{
	struct ends *e = user;

	assert_int_equal(buf_append(&e->text, text, len), 0);
	assert_int_equal(buf_append(&e->text, "|", 1), 0);
}

static void client_on_bytes(void *user, const void *data, size_t len)
{
	struct ends *e = user;

	assert_int_equal(buf_append(&e->bytes, data, len), 0);
}

static const struct websocket_ops client_ops = {client_on_text, client_on_bytes};

static void client_sends(struct ends *e)
{
	struct buf *out = websocket_out(e->client);

	guest_raw(e->theirs, out->data, out->len);
	buf_consume(out, out->len);
}

static void client_says(struct ends *e, const char *text)
{
	websocket_send_text(e->client, text, strlen(text));
	client_sends(e);
}

static void client_sends_bytes(struct ends *e, const char *bytes)
{
	websocket_send_bytes(e->client, bytes, strlen(bytes));
	client_sends(e);
}

/* One read; false at the end. */
static bool client_reads(struct ends *e)
{
	char data[4096];
	ssize_t n = recv(e->theirs, data, sizeof(data), 0);

	if (n > 0)
		websocket_feed(e->client, data, (size_t)n);
	return n > 0;
}

static void client_hears(struct ends *e, struct buf *what, const char *want)
{
	while (what->len < strlen(want))
		assert_true(client_reads(e));
	assert_int_equal(what->len, strlen(want));
	assert_memory_equal(what->data, want, what->len);
	buf_consume(what, what->len);
}

/* ---- both ends ---- */

static void *run(void *arg)
{
	struct ends *e = arg;

	ws_bridge_run(e->bridge, e->ours, NULL, 0);
	return NULL;
}

static void begin(struct ends *e, void **state)
{
	const struct http_req req = {.stats = &e->stats};
	int fds[2];

	*e = (struct ends){.p = *state, .text = buf_init(MIB(1)), .bytes = buf_init(MIB(4))};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	e->ours = fds[0];
	e->theirs = fds[1];
	e->client = websocket_new(WEBSOCKET_CLIENT, 1000, &client_ops, e);
	e->bridge = ws_bridge_new(&req, &ops, NULL, open_stream(e->p));
	assert_int_equal(pthread_create(&e->thread, NULL, run, e), 0);
}

/* One of the two has closed, with that; the other answers, and the bridge returns. */
static void end(struct ends *e, unsigned int code, const char *reason)
{
	while (!websocket_over(e->client))
		assert_true(client_reads(e));
	assert_int_equal(websocket_peer_code(e->client), code);
	assert_string_equal(websocket_peer_reason(e->client), reason);
	client_sends(e);
	assert_int_equal(pthread_join(e->thread, NULL), 0);
	ws_bridge_free(e->bridge);
	assert_int_equal(atomic_load(&e->stats.websockets), 0);
	websocket_free(e->client);
	buf_done(&e->text);
	buf_done(&e->bytes);
	close(e->ours);
	close(e->theirs);
}

static void guest_reads(const struct ends *e, enum link_type type, const char *want)
{
	struct frame f;

	assert_true(guest_read(e->p->guest_fd, &f));
	assert_int_equal(f.type, type);
	assert_string_equal(f.payload, want);
}

static void guest_says(const struct ends *e, const char *text)
{
	guest_text(e->p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, text);
}

static void guest_answers(const struct ends *e, const char *json)
{
	guest_text(e->p->guest_fd, LINK_CLOSE, 0, 1, json);
}

/* ---- tests ---- */

static void test_both_ways(void **state)
{
	struct ends e;

	begin(&e, state);
	client_sends_bytes(&e, "up");
	guest_reads(&e, LINK_DATA, "up");
	client_says(&e, "{\"in\":\"more\"}");
	guest_reads(&e, LINK_DATA, "more");
	guest_says(&e, "down");
	client_hears(&e, &e.bytes, "down");
	client_says(&e, "{\"end\":true}");
	guest_reads(&e, LINK_END, "");
	client_sends_bytes(&e, "too late"); /* it is dropped */
	guest_send(e.p->guest_fd, LINK_END, 0, 1, NULL, 0);
	client_hears(&e, &e.text, "{\"ended\":true}|");
	guest_answers(&e, "{\"ok\":{\"exit\":3}}");
	client_hears(&e, &e.text, "{\"answer\":{\"exit\":3}}|");
	end(&e, WEBSOCKET_NORMAL, "");
}

static void test_the_guest_fails(void **state)
{
	struct ends e;

	begin(&e, state);
	guest_answers(&e, "{\"error\":{\"kind\":\"internal\",\"message\":\"no terminal\"}}");
	end(&e, WEBSOCKET_INTERNAL, "no terminal");
}

static void test_what_is_no_json(void **state)
{
	struct ends e;

	begin(&e, state);
	client_says(&e, "{\"in\":");
	end(&e, WEBSOCKET_UNSUPPORTED,
		"the body is not valid JSON: line 1, column 6: unexpected token near end of file");
}

/* What came before it is with the guest; what comes behind it counts for nothing. */
static void test_what_is_refused(void **state)
{
	struct ends e;

	begin(&e, state);
	client_sends_bytes(&e, "up");
	guest_reads(&e, LINK_DATA, "up");
	websocket_send_text(e.client, "{}", 2);
	websocket_send_text(e.client, "{\"out\":1}", 9);
	client_sends(&e);
	end(&e, WEBSOCKET_UNSUPPORTED, "what is that?");
}

static void test_the_client_closes(void **state)
{
	struct ends e;

	begin(&e, state);
	guest_says(&e, "down");
	client_hears(&e, &e.bytes, "down");
	websocket_close(e.client, WEBSOCKET_NORMAL, "enough");
	client_sends(&e);
	end(&e, WEBSOCKET_NORMAL, "enough");
}

/* What the client says reaches a guest that has said all. */
static void test_the_guest_ends_first(void **state)
{
	struct ends e;

	begin(&e, state);
	guest_send(e.p->guest_fd, LINK_END, 0, 1, NULL, 0);
	client_hears(&e, &e.text, "{\"ended\":true}|");
	client_sends_bytes(&e, "up");
	guest_reads(&e, LINK_DATA, "up");
	guest_answers(&e, "{\"ok\":{}}");
	client_hears(&e, &e.text, "{\"answer\":{}}|");
	end(&e, WEBSOCKET_NORMAL, "");
}

/* A client that does not read stops the guest: its window is given back as the client takes. */
static void test_slow_client(void **state)
{
	enum { FRAMES = 2 * LIMIT_STREAM_WINDOW / LIMIT_FRAME_BYTES };
	struct ends e;
	char *frame = xcalloc(1, LIMIT_FRAME_BYTES);

	begin(&e, state);
	for (size_t i = 0; i < LIMIT_STREAM_WINDOW / LIMIT_FRAME_BYTES; i++)
		guest_send(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, frame, LIMIT_FRAME_BYTES);
	for (size_t i = 1; i <= FRAMES; i++) {
		struct frame credit;

		while (e.bytes.len < i * LIMIT_FRAME_BYTES)
			assert_true(client_reads(&e));
		assert_true(guest_read(e.p->guest_fd, &credit));
		assert_int_equal(credit.type, LINK_CREDIT);
		if (i + LIMIT_STREAM_WINDOW / LIMIT_FRAME_BYTES <= FRAMES)
			guest_send(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, frame,
				LIMIT_FRAME_BYTES);
	}
	guest_answers(&e, "{\"ok\":{}}");
	end(&e, WEBSOCKET_NORMAL, "");
	free(frame);
}

/* A guest gets what it has given credit for, and no byte more; the client is stopped meanwhile. */
static void test_slow_guest(void **state)
{
	struct ends e;
	char *bytes = xcalloc(1, LIMIT_FRAME_BYTES);
	size_t granted = LIMIT_STREAM_WINDOW - LIMIT_CONTROL_BYTES, got = 0; /* of data */
	struct frame f;

	begin(&e, state);
	for (size_t i = 0; i < 2 * LIMIT_STREAM_WINDOW / LIMIT_FRAME_BYTES; i++)
		websocket_send_bytes(e.client, bytes, LIMIT_FRAME_BYTES);
	while (got < 2 * LIMIT_STREAM_WINDOW) {
		struct buf *out = websocket_out(e.client);
		ssize_t n = send(e.theirs, out->data, out->len, MSG_DONTWAIT);

		if (n > 0)
			buf_consume(out, (size_t)n);
		if (got == granted) {
			guest_credit(e.p->guest_fd, 1, LIMIT_FRAME_BYTES);
			granted += LIMIT_FRAME_BYTES;
		}
		assert_true(guest_read(e.p->guest_fd, &f));
		assert_int_equal(f.type, LINK_DATA);
		got += f.length;
		assert_true(got <= granted);
	}
	guest_answers(&e, "{\"ok\":{}}");
	end(&e, WEBSOCKET_NORMAL, "");
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_both_ways),
		link_guest_test(test_the_guest_fails),
		link_guest_test(test_what_is_no_json),
		link_guest_test(test_what_is_refused),
		link_guest_test(test_the_client_closes),
		link_guest_test(test_the_guest_ends_first),
		link_guest_test(test_slow_client),
		link_guest_test(test_slow_guest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
