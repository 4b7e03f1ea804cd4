/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between a client's socket and a stream, in a thread as a connection has it: both ends are the test's. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "http/bridge.h"
#include "link_guest.h"

struct ends {
	struct pair *p;
	struct link_stream *stream;
	int ours, client;
	pthread_t thread;
};

static void *run(void *arg)
{
	const struct ends *e = arg;

	bridge_run(e->stream, e->ours, "early ", 6, "rest ", 5);
	return NULL;
}

static struct ends begin(void **state)
{
	struct ends e = {.p = *state, .stream = open_stream(*state)};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	e.ours = fds[0];
	e.client = fds[1];
	return e;
}

/* It has returned by itself. */
static void end(struct ends *e)
{
	assert_int_equal(pthread_join(e->thread, NULL), 0);
	link_stream_free(e->stream);
	close(e->ours);
	close(e->client);
}

static void client_reads(const struct ends *e, const char *want)
{
	char got[64] = "";

	assert_true(guest_read_exactly(e->client, got, strlen(want)));
	assert_string_equal(got, want);
}

static void guest_reads(const struct ends *e, enum link_type type, const char *want)
{
	struct frame f;

	assert_true(guest_read(e->p->guest_fd, &f));
	assert_int_equal(f.type, type);
	assert_string_equal(f.payload, want);
}

static void test_both_ways(void **state)
{
	struct ends e = begin(state);
	char c;

	assert_int_equal(pthread_create(&e.thread, NULL, run, &e), 0);
	client_reads(&e, "rest ");
	guest_reads(&e, LINK_DATA, "early ");
	assert_int_equal(send(e.client, "up", 2, 0), 2);
	guest_reads(&e, LINK_DATA, "up");
	guest_text(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "down");
	client_reads(&e, "down");
	/* The client's end; the guest goes on. */
	assert_int_equal(shutdown(e.client, SHUT_WR), 0);
	guest_reads(&e, LINK_END, "");
	guest_text(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "more");
	client_reads(&e, "more");
	guest_send(e.p->guest_fd, LINK_END, 0, 1, NULL, 0);
	assert_int_equal(recv(e.client, &c, 1, 0), 0);
	end(&e);
}

static void test_guest_ends_first(void **state)
{
	struct ends e = begin(state);
	char c;

	assert_int_equal(pthread_create(&e.thread, NULL, run, &e), 0);
	guest_send(e.p->guest_fd, LINK_END, 0, 1, NULL, 0);
	client_reads(&e, "rest ");
	assert_int_equal(recv(e.client, &c, 1, 0), 0);
	guest_reads(&e, LINK_DATA, "early ");
	assert_int_equal(send(e.client, "up", 2, 0), 2);
	guest_reads(&e, LINK_DATA, "up");
	assert_int_equal(shutdown(e.client, SHUT_WR), 0);
	guest_reads(&e, LINK_END, "");
	end(&e);
}

static void test_guest_breaks_off(void **state)
{
	struct ends e = begin(state);

	assert_int_equal(pthread_create(&e.thread, NULL, run, &e), 0);
	guest_text(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "half");
	guest_text(e.p->guest_fd, LINK_CLOSE, 0, 1,
		"{\"error\":{\"kind\":\"reset\",\"message\":\"x\"}}");
	client_reads(&e, "rest half");
	end(&e);
}

static void test_client_is_gone(void **state)
{
	struct ends e = begin(state);
	struct frame f;

	assert_int_equal(pthread_create(&e.thread, NULL, run, &e), 0);
	client_reads(&e, "rest ");
	guest_reads(&e, LINK_DATA, "early ");
	close(e.client);
	e.client = -1;
	assert_true(guest_read(e.p->guest_fd, &f));
	assert_int_equal(f.type, LINK_END);
	guest_text(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, "to nobody");
	end(&e);
}

/* A side that does not read stops the other; what was under way is not lost. */
static void test_slow_client(void **state)
{
	enum { FRAMES = 16 };
	struct ends e = begin(state);
	char *frame = xcalloc(1, LIMIT_FRAME_BYTES);
	int size = 4096;
	size_t got = 0;

	assert_int_equal(setsockopt(e.ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(pthread_create(&e.thread, NULL, run, &e), 0);
	guest_reads(&e, LINK_DATA, "early ");
	/* The window is full; credit comes as the client reads. */
	for (size_t i = 0; i < LIMIT_STREAM_WINDOW / LIMIT_FRAME_BYTES; i++)
		guest_send(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, frame, LIMIT_FRAME_BYTES);
	for (size_t i = 0; i < FRAMES; i++) {
		struct frame credit;

		while (got < (i + 1) * LIMIT_FRAME_BYTES) {
			ssize_t n = recv(e.client, frame, LIMIT_FRAME_BYTES, 0);

			assert_true(n > 0);
			got += (size_t)n;
		}
		assert_true(guest_read(e.p->guest_fd, &credit));
		assert_int_equal(credit.type, LINK_CREDIT);
		guest_send(e.p->guest_fd, LINK_DATA, LINK_CH_BODY, 1, frame, LIMIT_FRAME_BYTES);
	}
	guest_send(e.p->guest_fd, LINK_END, 0, 1, NULL, 0);
	assert_int_equal(shutdown(e.client, SHUT_WR), 0);
	while (recv(e.client, frame, LIMIT_FRAME_BYTES, 0) > 0)
		;
	free(frame);
	end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_both_ways),
		link_guest_test(test_guest_ends_first),
		link_guest_test(test_guest_breaks_off),
		link_guest_test(test_client_is_gone),
		link_guest_test(test_slow_client),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
