/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: events for what is gone are dropped, timers run once and can be stopped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop.h"

struct pair {
	struct source a;
	struct source b;
	int calls;
};

static struct pair pair;

static void on_either(struct source *src, uint32_t revents)
{
	assert_true(revents & EPOLLIN);
	pair.calls++;
	source_detach(&pair.a);
	source_detach(&pair.b);
}

static void test_a_callback_may_remove_the_others(void **state)
{
	struct loop loop;
	int x[2], y[2];

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(pipe(x), 0);
	assert_int_equal(pipe(y), 0);
	assert_int_equal(write(x[1], "x", 1), 1);
	assert_int_equal(write(y[1], "y", 1), 1);
	assert_int_equal(source_attach(&pair.a, &loop, x[0], EPOLLIN, on_either), 0);
	assert_int_equal(source_attach(&pair.b, &loop, y[0], EPOLLIN, on_either), 0);
	assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(pair.calls, 1);
	for (int i = 0; i < 2; i++) {
		close(x[i]);
		close(y[i]);
	}
	loop_done(&loop);
}

static int paused_calls;

static void on_paused(struct source *src, uint32_t revents)
{
	paused_calls++;
}

static int timer_calls;

static void on_timer(struct timer *timer)
{
	timer_calls++;
}

static void test_a_paused_source_does_not_even_hear_a_hangup(void **state)
{
	struct source src = {0};
	struct timer timer;
	struct loop loop;
	int fds[2];

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(pipe(fds), 0);
	close(fds[1]);
	assert_int_equal(source_attach(&src, &loop, fds[0], 0, on_paused), 0);
	timer_init(&timer, on_timer);
	timer_start(&timer, &loop, 10);
	assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(paused_calls, 0);
	assert_int_equal(timer_calls, 1);
	source_set(&src, EPOLLIN);
	assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(paused_calls, 1);
	source_detach(&src);
	source_detach(&src);
	close(fds[0]);
	loop_done(&loop);
}

static struct timer victim;

static void stop_victim(struct timer *timer)
{
	timer_stop(&victim);
}

static void test_timers(void **state)
{
	struct timer killer;
	struct loop loop;

	timer_calls = 0;
	assert_int_equal(loop_init(&loop), 0);
	timer_init(&killer, stop_victim);
	timer_init(&victim, on_timer);
	timer_start(&killer, &loop, 0);
	timer_start(&victim, &loop, 0);
	assert_true(timer_running(&victim));
	assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(timer_calls, 0);
	assert_false(timer_running(&victim));
	timer_start(&victim, &loop, 100000);
	timer_start(&victim, &loop, 0); /* again: the new time counts */
	assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(timer_calls, 1);
	loop_done(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_callback_may_remove_the_others),
		cmocka_unit_test(test_a_paused_source_does_not_even_hear_a_hangup),
		cmocka_unit_test(test_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
