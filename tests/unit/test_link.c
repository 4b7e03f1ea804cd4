/* SPDX-License-Identifier: Apache-2.0 */
/* A link as a whole against a scripted guest: its death, its generations, and calls from many threads. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "link_guest.h"

enum {
	PADDING = LIMIT_FRAME_BYTES + LINK_HEADER_BYTES,
};

/* ---- tests: death ---- */

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

	assert_true(guest_read_exactly(p->guest_fd, zeros, PADDING));
	for (size_t i = 0; i < PADDING; i++)
		assert_int_equal(zeros[i], 0);
	assert_true(guest_read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
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
	link_guest_teardown(&own);
}

/* The answer comes a byte at a time. */
static void test_resync_slowly(void **state)
{
	struct pair *p = pair_new(false);
	struct link_stream *s;
	void *own = p;

	assert_true(guest_read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	s = open_stream(p);
	guest_raw(p->guest_fd, "xyz", 3);
	for (size_t i = 0; i < sizeof(p->hello); i++)
		guest_raw(p->guest_fd, p->hello + i, 1);
	guest_text(p->guest_fd, LINK_CLOSE, 0, 1, "{\"ok\":{}}");
	json_is(s, LINK_CLOSE, "{}");
	link_stream_free(s);
	link_guest_teardown(&own);
}

static void test_resync_never(void **state)
{
	struct pair *p = pair_new(false);
	struct link_stream *s;
	char *noise = xcalloc(1, MIB(1));
	void *own = p;

	assert_true(guest_read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	s = open_stream(p);
	memset(noise, 0xA5, MIB(1));
	for (int i = 0; i < 20; i++)
		guest_raw(p->guest_fd, noise, MIB(1));
	free(noise);
	dies(s, BROKEN);
	link_stream_free(s);
	link_guest_teardown(&own);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		link_guest_test(test_after_death),
		link_guest_test(test_death_wakes_all),
		link_guest_test(test_on_dead),
		link_guest_test(test_death_after_close),
		cmocka_unit_test(test_resync),
		cmocka_unit_test(test_resync_slowly),
		cmocka_unit_test(test_resync_never),
		cmocka_unit_test(test_dead_from_the_start),
		link_guest_test(test_call),
		link_guest_test(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
