/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about a process: our own, whatever it is called, and one that is no more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/process_stat.h"

static void test_own(void **state)
{
	static const char *const names[] = {"plain", "a b", ") S 1 2 3 4", "(((", "))))"};
	struct process_stat first = {0}, again;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
		assert_int_equal(process_stat_read(getpid(), &again), 0);
		assert_int_equal(again.threads, 1);
		assert_true(again.rss_pages > 100);
		assert_true(again.vsz_bytes / (uint64_t)sysconf(_SC_PAGESIZE) > again.rss_pages);
		assert_true(again.cpu_ticks >= first.cpu_ticks);
		assert_true(again.started_ticks > 0);
		assert_true(i == 0 || again.started_ticks == first.started_ticks);
		first = again;
	}
}

static void test_none(void **state)
{
	struct process_stat stat;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_stat_read(pid, &stat), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
