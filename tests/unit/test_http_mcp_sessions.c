/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of sessions that have ended. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "http/mcp_sessions.h"
#include "scratch.h"

static void test_an_ended_one_is_known_until_many_others_have_ended(void **state)
{
	struct mcp_sessions *s = xnew(struct mcp_sessions);
	struct mcp_hold hold;
	struct err err = {0};
	char name[LIMIT_MCP_SESSION_BYTES + 1];

	mcp_sessions_init(s);
	memset(name, 'x', LIMIT_MCP_SESSION_BYTES);
	name[LIMIT_MCP_SESSION_BYTES] = 0;
	assert_int_equal(mcp_sessions_check(s, name, &err), 0);
	mcp_sessions_end(s, name);
	for (int i = 0; i < LIMIT_MCP_ENDED_SESSIONS; i++) {
		char other[16];

		assert_true(mcp_sessions_check(s, name, &err) < 0);
		assert_int_equal(err.kind, ERR_SESSION_NOT_FOUND);
		assert_true(mcp_sessions_hold(s, &hold, name, &err) < 0);
		mcp_sessions_end(s, name); /* takes no place of its own */
		(void)snprintf(other, sizeof(other), "other %d", i);
		mcp_sessions_end(s, other);
	}
	assert_int_equal(mcp_sessions_check(s, name, &err), 0);
	assert_true(mcp_sessions_check(s, "other 0", &err) < 0);
	mcp_sessions_done(s);
	free(s);
}

struct ender {
	struct mcp_sessions *sessions;
	atomic_bool done;
};

static void *end_it(void *arg)
{
	struct ender *e = arg;

	mcp_sessions_end(e->sessions, "a");
	atomic_store(&e->done, true);
	return NULL;
}

static void test_an_end_waits_for_who_makes_its_sandbox(void **state)
{
	struct mcp_sessions *s = xnew(struct mcp_sessions);
	struct ender ender = {.sessions = s};
	struct mcp_hold first, second, other;
	struct err err = {0};
	pthread_t thread;

	mcp_sessions_init(s);
	assert_int_equal(mcp_sessions_hold(s, &first, "a", &err), 0);
	assert_int_equal(mcp_sessions_hold(s, &second, "a", &err), 0);
	assert_int_equal(mcp_sessions_hold(s, &other, "b", &err), 0);
	assert_int_equal(pthread_create(&thread, NULL, end_it, &ender), 0);
	while (mcp_sessions_check(s, "a", &err) == 0)
		(void)sched_yield();
	mcp_sessions_leave(s, &first);
	assert_false(atomic_load(&ender.done));
	mcp_sessions_leave(s, &second);
	assert_int_equal(pthread_join(thread, NULL), 0); /* "b" is none of its business */
	mcp_sessions_leave(s, &other);
	mcp_sessions_done(s);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_ended_one_is_known_until_many_others_have_ended),
		cmocka_unit_test(test_an_end_waits_for_who_makes_its_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
