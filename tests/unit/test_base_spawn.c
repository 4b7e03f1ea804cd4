/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs: which descriptors, folder, environment and signals they get, and how they end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>

#include "base/spawn.h"
#include "scratch.h"

static void start(const struct spawn *sp, pid_t *pid, int *pidfd)
{
	struct err err = {0};

	if (spawn_start(sp, pid, pidfd, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Runs it to its end; its output is in `out`. Returns its status. */
static int run(struct spawn *sp, char *out, size_t size)
{
	_cleanup_close_ int rd = -1, wr = -1, pidfd = -1;
	size_t len = 0;
	ssize_t n;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	rd = fds[0];
	wr = fds[1];
	sp->fds[1] = wr;
	start(sp, &pid, &pidfd);
	(void)close(steal_fd(&wr));
	while ((n = read(rd, out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	return spawn_wait(pidfd);
}

static int run_shell(const char *script, char *out, size_t size)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 3};

	return run(&sp, out, size);
}

static void test_status(void **state)
{
	char out[64];

	assert_int_equal(run_shell("exit 0", out, sizeof(out)), 0);
	assert_int_equal(run_shell("exit 42", out, sizeof(out)), 42);
	assert_int_equal(run_shell("kill -KILL $$", out, sizeof(out)), 128 + SIGKILL);
	assert_int_equal(run_shell("kill -TERM $$", out, sizeof(out)), 128 + SIGTERM);
}

static void test_no_such_program(void **state)
{
	const char *const argv[] = {"no-such-program-anywhere", NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 3};
	struct err err = {0};
	pid_t pid = 77;
	int pidfd = 77;

	assert_int_equal(spawn_start(&sp, &pid, &pidfd, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "no-such-program-anywhere"));
	assert_int_equal(pid, 77);
	assert_int_equal(pidfd, 77);
}

/* What isn't given is /dev/null; nothing of ours leaks. */
static void test_descriptors(void **state)
{
	_cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *const argv[] = {"sh", "-c",
		"for n in 0 2 3 4; do readlink /proc/$$/fd/$n; done; ls /proc/$$/fd; :", NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1, -1, fd}, .n_fds = 5};
	char out[512], want[512];

	assert_true(fd >= 0);
	(void)snprintf(want, sizeof(want), "/dev/null\n/dev/null\n/dev/null\n%s\n0\n1\n2\n3\n4\n",
		(const char *)*state);
	assert_int_equal(run(&sp, out, sizeof(out)), 0);
	assert_string_equal(out, want);
}

/* Low numbers handed over crosswise: none is overwritten before its turn. */
static void test_crossed_descriptors(void **state)
{
	const char *const argv[] = {"sh", "-c", "cat <&4; cat <&3", NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 5};
	char out[64];
	int a[2], b[2];

	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	assert_int_equal(write(a[1], "a", 1), 1);
	assert_int_equal(write(b[1], "b", 1), 1);
	(void)close(a[1]);
	(void)close(b[1]);
	sp.fds[3] = MAX(a[0], b[0]);
	sp.fds[4] = MIN(a[0], b[0]);
	assert_int_equal(run(&sp, out, sizeof(out)), 0);
	assert_string_equal(out, "ab"); /* a's read end has the lower number */
	(void)close(a[0]);
	(void)close(b[0]);
}

static void test_cwd_and_env(void **state)
{
	const char *const argv[] = {"sh", "-c", "pwd -P; echo $A; env | wc -l", NULL};
	const char *const env[] = {"A=1", "PWD=", NULL};
	struct spawn sp = {.argv = argv,
		.env = env,
		.cwd = *state,
		.fds = {-1, -1, -1},
		.n_fds = 3};
	_cleanup_free_ char *real = realpath(*state, NULL);
	char out[512], want[512];

	(void)snprintf(want, sizeof(want), "%s\n1\n", real);
	assert_int_equal(run(&sp, out, sizeof(out)), 0);
	assert_memory_equal(out, want, strlen(want));
	sp.cwd = "/no/such/folder";
	assert_true(spawn_start(&sp, &(pid_t){0}, &(int){0}, NULL) < 0);
}

/* Signals that we block or ignore are not blocked or ignored in the child. */
static void test_signals(void **state)
{
	sigset_t set, old;
	char out[64];

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	assert_true(signal(SIGINT, SIG_IGN) != SIG_ERR);
	assert_int_equal(run_shell("kill -TERM $$; echo alive", out, sizeof(out)), 128 + SIGTERM);
	assert_int_equal(run_shell("kill -INT $$; echo alive", out, sizeof(out)), 128 + SIGINT);
	(void)signal(SIGINT, SIG_DFL);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

static void test_session(void **state)
{
	const char *const argv[] = {"sh", "-c", "cut -d ' ' -f 1,6 /proc/$$/stat", NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 3};
	unsigned int pid, sid;
	char out[64];

	assert_int_equal(run(&sp, out, sizeof(out)), 0);
	assert_int_equal(sscanf(out, "%u %u", &pid, &sid), 2);
	assert_int_equal(sid, getsid(0));
	sp.new_session = true;
	assert_int_equal(run(&sp, out, sizeof(out)), 0);
	assert_int_equal(sscanf(out, "%u %u", &pid, &sid), 2);
	assert_int_equal(sid, pid);
}

static void test_ended(void **state)
{
	const char *const argv[] = {"cat", NULL};
	struct spawn sp = {.argv = argv, .n_fds = 3};
	_cleanup_close_ int pidfd = -1;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	sp.fds[0] = fds[0];
	sp.fds[1] = sp.fds[2] = -1;
	start(&sp, &pid, &pidfd);
	assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
	assert_false(spawn_ended(pidfd, 0));
	(void)close(fds[1]); /* the end of its input */
	assert_true(spawn_ended(pidfd, -1));
	assert_int_equal(spawn_wait(pidfd), 0);
	(void)close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_no_such_program),
		scratch_test(test_descriptors),
		cmocka_unit_test(test_crossed_descriptors),
		scratch_test(test_cwd_and_env),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
