/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups of machines: what /proc says of them, and, where this machine permits one, all of its life. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "engine/cgroup.h"
#include "scratch.h"

#define V1 "9:name=systemd:/\n8:pids:/a/pids\n4:memory:/a/b\n2:cpu,cpuacct:/c\n1:net_prio:/memory\n"

static void test_parse(void **state)
{
	static const struct {
		const char *text, *controller, *path;
		int r;
	} rows[] = {
		{"0::/\n", "", "/", 0},
		{"0::/user.slice/a b\n", "", "/user.slice/a b", 0},
		{V1 "0::/unified\n", "", "/unified", 0},
		{V1, "memory", "/a/b", 0},
		{V1, "pids", "/a/pids", 0},
		{V1, "cpu", "/c", 0},
		{V1, "cpuacct", "/c", 0},
		{V1, "cpuset", NULL, -ENOENT},
		{V1, "", NULL, -ENOENT},
		{"0::/a:b\n", "", "/a:b", 0},
		{"0::/a..b/...\n", "", "/a..b/...", 0},
		{"0::/../other\n", "", NULL, -EPROTO},
		{"0::/..\n", "", NULL, -EPROTO},
		{"0::\n", "", NULL, -EPROTO},
		{"0::elsewhere\n", "", NULL, -EPROTO},
		{"0::/longer than there is room for it, by far\n", "", NULL, -EPROTO},
		{"0::/no end", "", NULL, -ENOENT},
		{"", "", NULL, -ENOENT},
		{"\n:\n::\n", "memory", NULL, -ENOENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[32] = "untouched";

		assert_int_equal(cgroup_parse(rows[i].text, rows[i].controller, path, sizeof(path)),
			rows[i].r);
		assert_string_equal(path, rows[i].path ? rows[i].path : "untouched");
	}
}

static void test_of_nobody(void **state)
{
	struct cgroup c = {0};

	cgroup_of_process(getpid(), *state, &c); /* no machine's */
	assert_null(c.folders[0]);
	cgroup_of_process(-1, *state, &c);
	assert_null(c.folders[0]);
	cgroup_of_process(getpid(), "/nonexistent", &c);
	assert_null(c.folders[0]);
	cgroup_of_folder(*state, &c);
	assert_null(c.folders[0]);
	cgroup_of_folder("/nonexistent", &c);
	assert_null(c.folders[0]);
	cgroup_end(&c);
}

/* A shell that joins it, says so, and has a child that would outlive it. */
static void start(const struct cgroup *c, pid_t *pid, int *pidfd)
{
	char script[2048] = "";
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 4};
	int pipe_fds[2];
	char said;

	for (size_t i = 0; i < CGROUP_FOLDERS_MAX && c->folders[i]; i++)
		(void)snprintf(script + strlen(script), sizeof(script) - strlen(script),
			"echo 0 >'%s/cgroup.procs'; ", c->folders[i]);
	(void)snprintf(script + strlen(script), sizeof(script) - strlen(script),
		"sleep 1000 & echo >&3; wait");
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	sp.fds[3] = pipe_fds[1];
	assert_int_equal(spawn_start(&sp, pid, pidfd, NULL), 0);
	(void)close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &said, 1), 1);
	(void)close(pipe_fds[0]);
}

static void test_life(void **state)
{
	struct cgroup c = {0}, found = {0};
	char why[128], *folder, *limit;
	int pidfd;
	pid_t pid;
	struct err err = {0};

	if (!cgroup_prepare(why, sizeof(why))) {
		print_message("no cgroups here: %s\n", why);
		assert_int_equal(cgroup_make(*state, MIB(64), 2, &c, &err), 0);
		assert_null(c.folders[0]);
		return;
	}
	if (cgroup_make(*state, MIB(64), 2, &c, &err) < 0)
		fail_msg("%s", err.msg);
	folder = xstrdup(c.folders[0]);
	limit = fs_join(folder, c.folders[1] ? "memory.limit_in_bytes" : "memory.max");
	assert_int_equal(access(limit, F_OK), 0);
	start(&c, &pid, &pidfd);
	cgroup_of_process(pid, "/", &found);
	assert_null(found.folders[0]); /* it has the name of ours, and is another's */
	cgroup_of_process(pid, *state, &found);
	for (size_t i = 0; i < CGROUP_FOLDERS_MAX; i++) {
		if (c.folders[i])
			assert_string_equal(found.folders[i], c.folders[i]);
		else
			assert_null(found.folders[i]);
	}
	cgroup_done(&found);
	assert_int_equal(kill(pid, SIGKILL), 0); /* alone: its child is left */
	assert_int_equal(spawn_wait(pidfd), 128 + SIGKILL);
	cgroup_done(&c); /* as if we had died, too */
	cgroup_of_folder(*state, &found);
	assert_string_equal(found.folders[0], folder);
	cgroup_end(&found);
	assert_int_equal(access(folder, F_OK), -1);
	assert_null(found.folders[0]);
	(void)close(pidfd);
	free(limit);
	free(folder);
}

static int write_to(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
}

/* Version 1 refuses a child more CPUs than its parent has. */
static int make_within(const char *outer, const char *dir)
{
	struct cgroup c = {0};
	int r = write_to(outer, "cpu.cfs_quota_us", "50000");

	if (r == 0)
		r = write_to(outer, "cgroup.procs", "0");
	if (r == 0)
		r = cgroup_make(dir, MIB(64), 2, &c, NULL);
	if (r == 0 && strncmp(c.folders[2], outer, strlen(outer)) != 0)
		r = -ENOENT;
	cgroup_end(&c);
	return -r;
}

static void test_more_than_the_daemon_has(void **state)
{
	struct cgroup c = {0};
	int status = 0;
	char why[128];
	char *outer;
	pid_t pid;

	if (!cgroup_prepare(why, sizeof(why)) || cgroup_make(*state, MIB(64), 2, &c, NULL) < 0 ||
		!c.folders[1]) {
		print_message("no cgroups of version 1 here\n");
		cgroup_end(&c);
		return;
	}
	assert_true(asprintf(&outer, "%s-outer", c.folders[2]) > 0);
	cgroup_end(&c);
	assert_int_equal(mkdir(outer, 0755), 0);
	pid = fork();
	if (pid == 0)
		_exit(make_within(outer, *state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rmdir(outer), 0);
	assert_int_equal(status, 0);
	free(outer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		scratch_test(test_of_nobody),
		scratch_test(test_life),
		scratch_test(test_more_than_the_daemon_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
