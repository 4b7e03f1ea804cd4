/* SPDX-License-Identifier: Apache-2.0 */
/* Child exits: those watched are told, the others reaped, and a PID that is not ours is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reap.h"

static int exits, last_status, orphans;

static void on_exit_(struct child *child, int status)
{
	exits++;
	last_status = status;
}

static void on_orphan(struct reaper *reaper)
{
	orphans++;
}

static pid_t start(int code)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(code);
	return pid;
}

static void test_all(void **state)
{
	struct reaper reaper;
	struct child a = {0}, b = {0};
	struct loop loop;
	pid_t pid;

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(reaper_init(&reaper, &loop, on_orphan), 0);

	assert_int_equal(child_watch(&a, &reaper, 1, on_exit_), -ECHILD);
	assert_int_equal(child_watch(&a, &reaper, getpid(), on_exit_), -ECHILD);
	assert_int_equal(child_watch(&a, &reaper, 0, on_exit_), -ECHILD);
	assert_int_equal(child_watch(&a, &reaper, -1, on_exit_), -ECHILD);

	pid = start(7);
	assert_int_equal(child_watch(&a, &reaper, pid, on_exit_), 0);
	assert_int_equal(child_watch(&b, &reaper, pid, on_exit_), -EBUSY);
	while (!exits)
		assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(WEXITSTATUS(last_status), 7);
	assert_int_equal(a.pid, 0);
	assert_int_equal(orphans, 0);

	pid = start(0);
	assert_int_equal(child_watch(&a, &reaper, pid, on_exit_), 0);
	child_forget(&a);
	child_forget(&a);
	while (!orphans)
		assert_int_equal(loop_poll(&loop), 0);
	assert_int_equal(exits, 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */

	reaper_done(&reaper);
	loop_done(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
