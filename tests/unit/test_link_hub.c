/* SPDX-License-Identifier: Apache-2.0 */
/* The hub: once per arming, never after unwatch, also when a callback removes itself. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/hub.h"

struct watched {
	int fd;
	struct link_watch *watch;
	atomic_int calls;
	sem_t called, go_on;
};

static void count(void *user)
{
	struct watched *w = user;

	w->calls++;
	(void)sem_post(&w->called);
}

static void take_and_rearm(void *user)
{
	struct watched *w = user;
	uint64_t n;

	assert_int_equal(read(w->fd, &n, sizeof(n)), sizeof(n));
	count(w);
	link_hub_rearm(w->watch);
}

static void remove_itself(void *user)
{
	struct watched *w = user;

	w->watch = link_hub_unwatch(w->watch);
	count(w);
}

static void wait_for_go(void *user)
{
	struct watched *w = user;

	count(w);
	(void)sem_wait(&w->go_on);
	w->calls++;
}

static void watch(struct link_hub *hub, struct watched *w, link_watch_fn *fn)
{
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->calls = 0;
	assert_int_equal(sem_init(&w->called, 0, 0), 0);
	assert_int_equal(sem_init(&w->go_on, 0, 0), 0);
	assert_int_equal(link_hub_watch(hub, w->fd, fn, w, &w->watch, NULL), 0);
}

static void wake(struct watched *w)
{
	assert_int_equal(eventfd_write(w->fd, 1), 0);
}

static void done(struct watched *w)
{
	w->watch = link_hub_unwatch(w->watch);
	(void)close(w->fd);
	(void)sem_destroy(&w->called);
	(void)sem_destroy(&w->go_on);
}

static int start(void **state)
{
	return link_hub_new((struct link_hub **)state, NULL);
}

static int stop(void **state)
{
	link_hub_free(*state);
	return 0;
}

/* Readable all the time, called once; another watch's call shows that the hub came round again. */
static void test_oneshot(void **state)
{
	struct watched a, b;

	watch(*state, &a, count);
	watch(*state, &b, take_and_rearm);
	wake(&a);
	(void)sem_wait(&a.called);
	for (int i = 0; i < 3; i++) {
		wake(&b);
		(void)sem_wait(&b.called);
	}
	assert_int_equal(a.calls, 1);
	link_hub_rearm(a.watch);
	(void)sem_wait(&a.called);
	assert_int_equal(a.calls, 2);
	done(&a);
	done(&b);
}

static void test_unwatched_is_silent(void **state)
{
	struct watched a, b;

	watch(*state, &a, count);
	watch(*state, &b, take_and_rearm);
	a.watch = link_hub_unwatch(a.watch);
	wake(&a);
	wake(&b);
	(void)sem_wait(&b.called);
	assert_int_equal(a.calls, 0);
	done(&a);
	done(&b);
}

static void test_remove_itself(void **state)
{
	struct watched a;

	watch(*state, &a, remove_itself);
	wake(&a);
	(void)sem_wait(&a.called);
	assert_null(a.watch);
	done(&a);
}

static void *let_go(void *arg)
{
	struct watched *w = arg;

	(void)sem_post(&w->go_on);
	return NULL;
}

/* unwatch returns only when the callback is over. */
static void test_unwatch_waits(void **state)
{
	struct watched a;
	pthread_t thread;

	watch(*state, &a, wait_for_go);
	wake(&a);
	(void)sem_wait(&a.called);
	assert_int_equal(pthread_create(&thread, NULL, let_go, &a), 0);
	a.watch = link_hub_unwatch(a.watch);
	assert_int_equal(a.calls, 2);
	assert_int_equal(pthread_join(thread, NULL), 0);
	done(&a);
}

static void test_many(void **state)
{
	struct watched all[200];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++)
			watch(*state, &all[i], take_and_rearm);
		for (int i = 0; i < 200; i++)
			wake(&all[i]);
		for (int i = 0; i < 200; i++)
			(void)sem_wait(&all[i].called);
		for (int i = 0; i < 200; i++)
			done(&all[i]);
	}
}

static void test_bad_descriptor(void **state)
{
	struct link_watch *w = NULL;
	struct err err = {0};

	assert_true(link_hub_watch(*state, -1, count, NULL, &w, &err) < 0);
	assert_null(w);
	assert_true(err.msg[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_oneshot, start, stop),
		cmocka_unit_test_setup_teardown(test_unwatched_is_silent, start, stop),
		cmocka_unit_test_setup_teardown(test_remove_itself, start, stop),
		cmocka_unit_test_setup_teardown(test_unwatch_waits, start, stop),
		cmocka_unit_test_setup_teardown(test_many, start, stop),
		cmocka_unit_test_setup_teardown(test_bad_descriptor, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
