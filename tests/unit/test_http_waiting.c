/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that wait: which are ended when there are many, and which never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "http/waiting.h"

enum { MAX = 3, ALL = 8 };

struct world {
	struct waiting waiting;
	struct waiting_one *ones[ALL];
	int ours[ALL], theirs[ALL];
};

static int setup(void **state)
{
	struct world *w = xnew(struct world);

	waiting_init(&w->waiting, MAX);
	*state = w;
	return 0;
}

static void enter(struct world *w, size_t i)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	w->ours[i] = fds[0];
	w->theirs[i] = fds[1];
	w->ones[i] = waiting_enter(&w->waiting, fds[0]);
}

static void leave(struct world *w, size_t i)
{
	w->ones[i] = waiting_leave(&w->waiting, w->ones[i]);
	close(w->ours[i]);
	close(w->theirs[i]);
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ALL; i++) {
		if (w->ones[i])
			leave(w, i);
	}
	assert_int_equal(w->waiting.open, 0);
	waiting_done(&w->waiting);
	free(w);
	return 0;
}

static bool is_ended(const struct world *w, size_t i)
{
	char c;

	return recv(w->theirs[i], &c, 1, MSG_DONTWAIT) == 0;
}

static void test_the_oldest_is_ended(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < MAX; i++)
		enter(w, i);
	assert_false(is_ended(w, 0));
	enter(w, 3);
	assert_true(is_ended(w, 0));
	assert_false(is_ended(w, 1));
	leave(w, 0);
	leave(w, 1);
	enter(w, 4);
	assert_false(is_ended(w, 2));
	enter(w, 5);
	assert_true(is_ended(w, 2));
	enter(w, 6); /* the one before is not closed yet, and not ended twice */
	assert_true(is_ended(w, 3));
	assert_false(is_ended(w, 4));
}

static void test_who_may_ask_is_never_ended(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i <= MAX; i++) {
		enter(w, i);
		waiting_admit(&w->waiting, w->ones[i]);
	}
	enter(w, 4);
	enter(w, 5);
	assert_true(is_ended(w, 4));
	waiting_again(&w->waiting, w->ones[0]);
	enter(w, 6);
	assert_true(is_ended(w, 5));
	enter(w, 7);
	assert_true(is_ended(w, 0));
	for (size_t i = 1; i <= MAX; i++)
		assert_false(is_ended(w, i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_oldest_is_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_may_ask_is_never_ended, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
