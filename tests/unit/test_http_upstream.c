/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange with a server behind a scripted guest: answers, early ones, none, and clients that are gone. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "http/headers.h"
#include "http/upstream.h"
#include "link_guest.h"

enum { SOON_MS = 100, MUCH = 1 << 20 };

static struct upstream *open_upstream(struct pair *p, int client_fd)
{
	struct upstream *u = upstream_new(open_stream(p), NULL, 8000, client_fd);

	upstream_expect(u, false, false);
	return u;
}

/* Bytes of the server of that stream. */
static void says(struct pair *p, uint32_t stream, const char *text)
{
	guest_text(p->guest_fd, LINK_DATA, LINK_CH_BODY, stream, text);
}

static void body_is(struct upstream *u, size_t piece, const char *want)
{
	char body[256] = "";
	ssize_t n;

	for (size_t len = 0; (n = upstream_read(u, body + len, piece)) > 0;)
		len += (size_t)n;
	assert_int_equal(n, 0);
	assert_string_equal(body, want);
}

static void test_answer(void **state)
{
	struct pair *p = *state;
	struct frame f;

	for (uint32_t stream = 1; stream < 20; stream++) {
		struct upstream *u = open_upstream(p, -1);
		struct upstream_head head = {0};

		assert_int_equal(upstream_send(u, "GET", 3, SOON_MS, NULL), 0);
		assert_true(guest_read(p->guest_fd, &f));
		assert_string_equal(f.payload, "GET");
		guest_text(p->guest_fd, LINK_EVENT, 0, stream, "{\"connected\":true}");
		says(p, stream, "HTTP/1.1 200 OK\r\nA: ");
		says(p, stream, "b\r\nContent-Length: 11\r\n\r\nhello");
		says(p, stream, ", world and more");
		assert_int_equal(upstream_wait_head(u, SOON_MS, &head, NULL), 0);
		assert_int_equal(head.status, 200);
		assert_int_equal(head.body_len, 11);
		assert_string_equal(headers_get(head.headers, "a"), "b");
		body_is(u, stream, "hello, worl");
		/* It has answered all that it was asked: it is not cut off. */
		upstream_close(u);
		assert_true(guest_read(p->guest_fd, &f));
		assert_int_equal(f.type, LINK_END);
		assert_true(guest_read(p->guest_fd, &f));
		assert_int_equal(f.type, LINK_CLOSE);
	}
}

static void test_body_up_to_the_end(void **state)
{
	struct pair *p = *state;
	struct upstream *u = open_upstream(p, -1);
	struct upstream_head head = {0};

	says(p, 1, "HTTP/1.0 200 OK\r\n\r\nhel");
	says(p, 1, "lo");
	guest_send(p->guest_fd, LINK_END, 0, 1, NULL, 0);
	assert_int_equal(upstream_wait_head(u, SOON_MS, &head, NULL), 0);
	assert_int_equal(head.body_len, -1);
	body_is(u, 10, "hello");
	upstream_close(u);
}

static void test_body_that_is_cut(void **state)
{
	struct pair *p = *state;
	struct upstream *u = open_upstream(p, -1);
	struct upstream_head head = {0};
	struct frame f;
	char body[16];

	says(p, 1, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1,
		"{\"error\":{\"kind\":\"reset\",\"message\":\"port 8000: broken off\"}}");
	assert_int_equal(upstream_wait_head(u, SOON_MS, &head, NULL), 0);
	assert_int_equal(upstream_read(u, body, sizeof(body)), 5);
	assert_true(upstream_read(u, body, sizeof(body)) < 0);
	upstream_close(u);
	u = open_upstream(p, -1); /* the next frame is this one's: nothing was left to be said */
	upstream_close(u);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_CLOSE);
	assert_int_equal(f.stream, 2);
}

/* Waits for the head, which must fail like that. */
static void no_head(struct upstream *u, int r, enum err_kind kind, const char *words)
{
	struct upstream_head head;
	struct err err = {0};

	assert_int_equal(upstream_wait_head(u, SOON_MS, &head, &err), r);
	assert_int_equal(err.kind, kind);
	if (!strstr(err.msg, words))
		fail_msg("%s", err.msg);
	upstream_close(u);
}

static void test_silence(void **state)
{
	no_head(open_upstream(*state, -1), -ETIMEDOUT, ERR_TIMEOUT,
		"upstream: timeout: the server on port 8000 has not answered");
}

static void test_silent_head(void **state)
{
	struct upstream *u = open_upstream(*state, -1);

	says(*state, 1, "HTTP/1.1 200 OK\r\nContent-Le");
	no_head(u, -ETIMEDOUT, ERR_TIMEOUT, "has not answered");
}

static void test_garbage(void **state)
{
	struct upstream *u = open_upstream(*state, -1);

	says(*state, 1, "SSH-2.0-OpenSSH\r\n");
	no_head(u, -EPROTO, ERR_UPSTREAM, "upstream: what the server on port 8000 says is no HTTP");
}

static void test_end_without_answer(void **state)
{
	struct pair *p = *state;
	struct upstream *u = open_upstream(p, -1);

	guest_send(p->guest_fd, LINK_END, 0, 1, NULL, 0);
	no_head(u, -EPROTO, ERR_UPSTREAM, "without an answer");
}

static void closed_with(void **state, const char *answer, enum err_kind kind, const char *words)
{
	struct pair *p = *state;
	struct upstream *u = open_upstream(p, -1);

	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, answer);
	no_head(u, -EREMOTEIO, kind, words);
}

static void test_refused(void **state)
{
	closed_with(state, "{\"error\":{\"kind\":\"refused\",\"message\":\"port 8000: nothing\"}}",
		ERR_UPSTREAM, "upstream: port 8000: nothing");
}

static void test_old_agent(void **state)
{
	closed_with(state, "{\"error\":{\"kind\":\"unsupported\",\"message\":\"unknown\"}}",
		ERR_UNSUPPORTED, "build it again");
}

static void test_dead_link(void **state)
{
	struct pair *p = *state;
	struct upstream *u = open_upstream(p, -1);

	guest_raw(p->guest_fd, "nonsense", 8);
	no_head(u, -EPIPE, ERR_SANDBOX_FAILED, "the sandbox is gone");
}

/* ---- requests ---- */

/* The guest of a server that reads nothing: takes what the window allows, and then says something. */
struct deaf_guest {
	struct pair *p;
	const char *says;
};

static void *be_deaf(void *arg)
{
	const struct deaf_guest *guest = arg;
	struct frame f;

	for (size_t got = 0; got < LIMIT_STREAM_WINDOW - LIMIT_CONTROL_BYTES; got += f.length) {
		if (!guest_read(guest->p->guest_fd, &f))
			return NULL;
	}
	if (guest->says)
		says(guest->p, 1, guest->says);
	return NULL;
}

/* Sends more than the window. What upstream_send() returned. */
static int send_much(void **state, const char *guest_says, struct upstream **ret, struct err *err)
{
	struct deaf_guest guest = {.p = *state, .says = guest_says};
	char *much = xcalloc(1, MUCH);
	pthread_t thread;
	int r;

	*ret = open_upstream(*state, -1);
	assert_int_equal(pthread_create(&thread, NULL, be_deaf, &guest), 0);
	r = upstream_send(*ret, much, MUCH, guest_says ? 10000 : SOON_MS, err);
	assert_int_equal(pthread_join(thread, NULL), 0);
	free(much);
	return r;
}

static void test_early_answer(void **state)
{
	struct upstream_head head = {0};
	struct upstream *u;

	assert_int_equal(send_much(state, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno",
				 &u, NULL),
		0);
	assert_int_equal(upstream_send(u, "more", 4, SOON_MS, NULL), 0); /* to nobody */
	assert_int_equal(upstream_wait_head(u, SOON_MS, &head, NULL), 0);
	assert_int_equal(head.status, 413);
	body_is(u, 10, "no");
	upstream_close(u);
}

static void test_stall(void **state)
{
	struct err err = {0};
	struct upstream *u;

	assert_int_equal(send_much(state, NULL, &u, &err), -ETIMEDOUT);
	assert_int_equal(err.kind, ERR_TIMEOUT);
	assert_non_null(strstr(err.msg, "takes no more"));
	upstream_close(u);
}

static void test_garbage_in_mid_request(void **state)
{
	struct err err = {0};
	struct upstream *u;

	assert_int_equal(send_much(state, "what?\r\n", &u, &err), -EPROTO);
	assert_int_equal(err.kind, ERR_UPSTREAM);
	upstream_close(u);
}

/* ---- clients ---- */

static void test_client_is_gone(void **state)
{
	struct upstream_head head;
	struct upstream *u;
	int client[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
	u = open_upstream(*state, client[0]);
	close(client[1]);
	assert_int_equal(upstream_wait_head(u, 10000, &head, NULL), -ECONNRESET);
	upstream_close(u);
	close(client[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_answer),
		link_guest_test(test_body_up_to_the_end),
		link_guest_test(test_body_that_is_cut),
		link_guest_test(test_silence),
		link_guest_test(test_silent_head),
		link_guest_test(test_garbage),
		link_guest_test(test_end_without_answer),
		link_guest_test(test_refused),
		link_guest_test(test_old_agent),
		link_guest_test(test_dead_link),
		link_guest_test(test_early_answer),
		link_guest_test(test_stall),
		link_guest_test(test_garbage_in_mid_request),
		link_guest_test(test_client_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
