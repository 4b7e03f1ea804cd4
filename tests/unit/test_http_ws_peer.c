/* SPDX-License-Identifier: Apache-2.0 */
/* A client at the other end of a WebSocket, which the test is: what is read and sent in a turn, silence, and the end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "http/ws_peer.h"

enum {
	PING_MS = 20 * 1000,
	STALL_MS = 3600 * 1000,
};

/* The peer, and what it heard; the client, and what that heard. */
struct ends {
	struct http_stats stats;
	struct ws_peer peer;
	struct websocket *client;
	struct buf heard, client_heard;
	int ours, theirs;
};

static void on_text(void *user, const char *text, size_t len)
{
	assert_int_equal(buf_append(user, text, len), 0);
}

static const struct websocket_ops ops = {.on_text = on_text, .on_bytes = NULL};

static int setup(void **state)
{
	struct ends *e = xnew(struct ends);
	const struct http_req req = {.stats = &e->stats};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	e->ours = fds[0];
	e->theirs = fds[1];
	e->heard = buf_init(MIB(1));
	e->client_heard = buf_init(MIB(1));
	e->client = websocket_new(WEBSOCKET_CLIENT, 1000, &ops, &e->client_heard);
	ws_peer_init(&e->peer, &req, &ops, &e->heard);
	assert_int_equal(atomic_load(&e->stats.websockets), 1);
	ws_peer_begin(&e->peer, e->ours, NULL, 0);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct ends *e = *state;

	ws_peer_done(&e->peer);
	assert_int_equal(atomic_load(&e->stats.websockets), 0);
	websocket_free(e->client);
	buf_done(&e->heard);
	buf_done(&e->client_heard);
	close(e->ours);
	if (e->theirs >= 0)
		close(e->theirs);
	free(e);
	return 0;
}

/* What waits at the client's end goes to the socket. */
static void client_sends(struct ends *e)
{
	struct buf *out = websocket_out(e->client);

	assert_int_equal(send(e->theirs, out->data, out->len, 0), out->len);
	buf_consume(out, out->len);
}

static void client_says(struct ends *e, const char *text)
{
	websocket_send_text(e->client, text, strlen(text));
	client_sends(e);
}

/* It takes all that is there. */
static void client_reads(struct ends *e)
{
	char data[4096];
	ssize_t n;

	while ((n = recv(e->theirs, data, sizeof(data), MSG_DONTWAIT)) > 0)
		websocket_feed(e->client, data, (size_t)n);
}

static void is(const struct buf *b, const char *want)
{
	assert_int_equal(b->len, strlen(want));
	assert_memory_equal(b->data, want, b->len);
}

static void say(struct ends *e, const char *text)
{
	websocket_send_text(e->peer.ws, text, strlen(text));
}

/* As if it had been silent for so long. */
static void silent_for(struct ends *e, int64_t ms)
{
	e->peer.heard_ms = clock_mono_ms() - ms;
}

/* It waits for nothing; negative where the peer is gone. */
static int look(struct ends *e, bool reads)
{
	return ws_peer_wait(&e->peer, reads, NULL, 0, clock_mono_ms());
}

/* Nothing is read from now on, and what is said to it waits. */
static void client_stalls(struct ends *e)
{
	char *big = xcalloc(1, KIB(512));

	memset(big, 'x', KIB(512));
	websocket_send_text(e->peer.ws, big, KIB(512));
	free(big);
	while (ws_peer_turn(&e->peer, 0) > 0)
		;
	assert_false(ws_peer_idle(&e->peer));
}

static void test_a_turn(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ws_peer_turn(&e->peer, 100), 0);
	client_says(e, "up");
	assert_int_equal(ws_peer_turn(&e->peer, 0), 0);
	is(&e->heard, "");
	say(e, "down");
	assert_false(ws_peer_idle(&e->peer));
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	is(&e->heard, "up");
	assert_true(ws_peer_idle(&e->peer));
	client_reads(e);
	is(&e->client_heard, "down");
}

/* What came with the request is first, and no more of it in a turn than asked for. */
static void test_early_bytes(void **state)
{
	struct ends *e = *state;
	struct buf *out = websocket_out(e->client);
	_cleanup_free_ char *early = NULL;
	size_t len;

	websocket_send_text(e->client, "early", 5);
	len = out->len;
	early = xcalloc(1, len);
	memcpy(early, out->data, len);
	buf_consume(out, len);
	client_says(e, " late");
	ws_peer_begin(&e->peer, e->ours, early, len);
	for (size_t i = 0; i < len; i++) {
		is(&e->heard, "");
		assert_int_equal(ws_peer_turn(&e->peer, 1), 1);
	}
	is(&e->heard, "early");
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	is(&e->heard, "early late");
}

static void test_silence(void **state)
{
	struct ends *e = *state;

	silent_for(e, PING_MS - 5000);
	assert_int_equal(look(e, true), 0);
	assert_true(ws_peer_idle(&e->peer));
	silent_for(e, PING_MS);
	assert_int_equal(look(e, true), 0);
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1); /* a ping */
	client_reads(e);
	client_sends(e); /* its answer */
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	silent_for(e, 2 * PING_MS - 5000);
	assert_int_equal(look(e, true), 0);
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1); /* the next */
	silent_for(e, 2 * PING_MS);
	assert_int_equal(look(e, true), -ETIMEDOUT);
}

/* While nothing is read of it, it can't answer. */
static void test_silence_that_is_not_heard(void **state)
{
	struct ends *e = *state;

	silent_for(e, STALL_MS);
	assert_int_equal(look(e, false), 0);
	assert_true(ws_peer_idle(&e->peer));
	assert_int_equal(look(e, true), 0);
	assert_true(ws_peer_idle(&e->peer));
}

/* But it hears that we are there, and is not taken for gone when it says nothing to that. */
static void test_pings_to_who_is_not_heard(void **state)
{
	struct ends *e = *state;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(look(e, false), 0);
		assert_true(ws_peer_idle(&e->peer));
		e->peer.pinged_ms -= PING_MS;
		assert_int_equal(look(e, false), 0);
		assert_false(ws_peer_idle(&e->peer)); /* a ping */
		assert_int_equal(ws_peer_turn(&e->peer, 0), 1);
	}
	assert_int_equal(look(e, true), 0);
	assert_true(ws_peer_idle(&e->peer));
	client_reads(e);
	assert_true(websocket_out(e->client)->len > 0);
}

static void test_who_takes_nothing(void **state)
{
	struct ends *e = *state;

	client_stalls(e);
	silent_for(e, STALL_MS - 5000);
	assert_int_equal(look(e, true), 0);
	client_reads(e);
	assert_int_equal(ws_peer_turn(&e->peer, 0), 1); /* it has taken something: it is there */
	while (ws_peer_turn(&e->peer, 0) > 0)
		;
	assert_int_equal(look(e, true), 0);
	silent_for(e, STALL_MS);
	assert_int_equal(look(e, true), -ETIMEDOUT);
}

/* With much unsent nothing is read: answers could pile up. */
static void test_what_waits_is_bounded(void **state)
{
	struct ends *e = *state;

	client_stalls(e);
	client_says(e, "up");
	assert_int_equal(ws_peer_turn(&e->peer, 100), 0);
	is(&e->heard, "");
	while (!ws_peer_idle(&e->peer)) {
		client_reads(e);
		assert_int_equal(ws_peer_turn(&e->peer, 0), 1);
	}
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	is(&e->heard, "up");
}

static void test_who_goes_without_a_word(void **state)
{
	struct ends *e = *state;

	assert_int_equal(shutdown(e->theirs, SHUT_WR), 0);
	assert_int_equal(look(e, true), 0); /* a turn finds it */
	assert_int_equal(look(e, false), -ECONNRESET);
	assert_int_equal(ws_peer_turn(&e->peer, 100), -ECONNRESET);
	client_reads(e);
	assert_int_equal(websocket_peer_code(e->client), WEBSOCKET_GOING_AWAY);
}

static void test_who_is_gone(void **state)
{
	struct ends *e = *state;

	close(e->theirs);
	e->theirs = -1;
	say(e, "to nobody");
	assert_int_equal(ws_peer_turn(&e->peer, 100), -EPIPE);
}

static void test_who_closes(void **state)
{
	struct ends *e = *state;

	websocket_close(e->client, WEBSOCKET_NORMAL, "enough");
	client_sends(e);
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	assert_true(websocket_closing(e->peer.ws));
	assert_int_equal(ws_peer_turn(&e->peer, 100),
		-ECONNRESET); /* ours is sent, and all is said */
	client_reads(e);
	assert_int_equal(websocket_peer_code(e->client), WEBSOCKET_NORMAL);
}

static void test_who_breaks_a_rule(void **state)
{
	struct ends *e = *state;

	assert_int_equal(send(e->theirs, "\x81\x01x", 3, 0), 3); /* not masked */
	assert_int_equal(ws_peer_turn(&e->peer, 100), 1);
	assert_int_equal(ws_peer_turn(&e->peer, 100), -ECONNRESET);
	client_reads(e);
	assert_int_equal(websocket_peer_code(e->client), WEBSOCKET_PROTOCOL_ERROR);
}

/* What waits goes first. A client that says no more is not waited for. */
static void test_finish(void **state)
{
	struct ends *e = *state;

	say(e, "last");
	assert_int_equal(shutdown(e->theirs, SHUT_WR), 0);
	ws_peer_finish(&e->peer, WEBSOCKET_INTERNAL, "it broke");
	client_reads(e);
	is(&e->client_heard, "last");
	assert_int_equal(websocket_peer_code(e->client), WEBSOCKET_INTERNAL);
	assert_string_equal(websocket_peer_reason(e->client), "it broke");
}

int main(void)
{
#define peer_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		peer_test(test_a_turn),
		peer_test(test_early_bytes),
		peer_test(test_silence),
		peer_test(test_silence_that_is_not_heard),
		peer_test(test_pings_to_who_is_not_heard),
		peer_test(test_who_takes_nothing),
		peer_test(test_what_waits_is_bounded),
		peer_test(test_who_goes_without_a_word),
		peer_test(test_who_is_gone),
		peer_test(test_who_closes),
		peer_test(test_who_breaks_a_rule),
		peer_test(test_finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
