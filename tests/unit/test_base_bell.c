/* SPDX-License-Identifier: Apache-2.0 */
/* The bell: rings before and during a wait, the time limit, a client that hangs up. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/macros.h"

static void *ring(void *bell)
{
	bell_ring(*(int *)bell);
	return NULL;
}

static void test_ring(void **state)
{
	_cleanup_close_ int bell = bell_new();
	pthread_t thread;

	assert_true(bell >= 0);
	bell_ring(bell);
	bell_ring(bell);
	assert_int_equal(bell_wait(bell, -1, -1), 0);
	assert_int_equal(bell_wait(bell, clock_mono_ms() + 1, -1), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, ring, &bell), 0);
	assert_int_equal(bell_wait(bell, clock_mono_ms() + 30000, -1), 0);
	(void)pthread_join(thread, NULL);
}

static void test_time(void **state)
{
	_cleanup_close_ int bell = bell_new();
	int64_t start = clock_mono_ms();

	bell_ring(bell);
	assert_int_equal(bell_wait(bell, start, -1), -ETIMEDOUT); /* it is over already */
	assert_int_equal(bell_wait(bell, -1, -1), 0);
	start = clock_mono_ms();
	while (bell_wait(bell, start + 20, -1) == 0)
		;
	assert_true(clock_mono_ms() >= start + 20);
}

static void test_hangup(void **state)
{
	_cleanup_close_ int bell = bell_new();
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	bell_ring(bell);
	assert_int_equal(bell_wait(bell, -1, fds[0]), 0);
	(void)close(fds[1]);
	assert_int_equal(bell_wait(bell, -1, fds[0]), -ECONNRESET);
	(void)close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_hangup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
