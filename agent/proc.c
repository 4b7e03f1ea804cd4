/* SPDX-License-Identifier: Apache-2.0 */
/* Starting processes: sessions of their own, in a control group from birth. */
/*
 * Theory of operation
 *
 * A child must be in its control group before it can fork in turn, or a part of its tree would
 * escape cgroup.kill. clone3() with CLONE_INTO_CGROUP does that in one step (Linux 5.7). The agent
 * protects itself from the out-of-memory killer and runs with a high priority; the child gives
 * both up first of all.
 *
 * /etc/passwd is read with fgetpwent(), for getpwnam() needs shared libraries in a static program.
 */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/macros.h"
#include "file_io.h"

enum {
	FDS_MAX = 4,
	FD_ABOVE = 16, /* descriptors are parked here while the first ones are set up */
	EXIT_NOT_FOUND = 127,
	EXIT_CANNOT_RUN = 126,
};

static bool is_member(const struct group *gr, const char *name)
{
	for (char **m = gr->gr_mem; *m; m++) {
		if (strcmp(*m, name) == 0)
			return true;
	}
	return false;
}

static void find_groups(struct proc_user *user)
{
	FILE *f = file_open_text("/etc/group");
	const struct group *gr;

	user->groups[user->group_count++] = user->gid;
	while (f && user->group_count < PROC_GROUPS_MAX && (gr = fgetgrent(f))) {
		if (gr->gr_gid != user->gid && is_member(gr, user->name))
			user->groups[user->group_count++] = gr->gr_gid;
	}
	if (f)
		(void)fclose(f);
}

int proc_user_find(const char *name, struct proc_user *ret, struct err *err)
{
	FILE *f = file_open_text("/etc/passwd");
	const struct passwd *pw = NULL;

	while (f && (pw = fgetpwent(f))) {
		if (strcmp(pw->pw_name, name) == 0)
			break;
	}
	if (pw) {
		*ret = (struct proc_user){.uid = pw->pw_uid, .gid = pw->pw_gid};
		(void)snprintf(ret->name, sizeof(ret->name), "%s", pw->pw_name);
		(void)snprintf(ret->home, sizeof(ret->home), "%s", pw->pw_dir);
	}
	if (f)
		(void)fclose(f);
	if (!pw)
		return err_set(err, ERR_INVALID, -ENOENT, "no such user: %s", name);
	find_groups(ret);
	return 0;
}

/* fork() with a control group; no stack is given, so the child goes on with a copy of ours. */
static pid_t clone_into(int cgroup_fd)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	long pid;

	if (cgroup_fd < 0)
		return fork();
	args.flags = CLONE_INTO_CGROUP;
	args.cgroup = (uint64_t)cgroup_fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	return (pid_t)pid;
}

static void reset_signals(void)
{
	sigset_t none;

	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Gives up what only the agent should have. */
static void become_ordinary(void)
{
	(void)setsid(); /* a new process: it cannot fail */
	reset_signals();
	(void)setpriority(PRIO_PROCESS, 0, 0);
	(void)file_write_small(AT_FDCWD, "/proc/self/oom_score_adj", "0"); /* may be 0 already */
}

static int become_user(const struct proc_user *user)
{
	if (!user)
		return 0;
	if (setgroups((size_t)user->group_count, user->groups) < 0 || setgid(user->gid) < 0 ||
		setuid(user->uid) < 0)
		return -errno;
	return 0;
}

static int place_fds(const int *fds, size_t count)
{
	int parked[FDS_MAX];

	assert(count <= FDS_MAX);
	for (size_t i = 0; i < count; i++) {
		parked[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, FD_ABOVE);
		if (fds[i] >= 0 && parked[i] < 0)
			return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		if (parked[i] >= 0 && dup2(parked[i], (int)i) < 0)
			return -errno;
	}
	return 0;
}

static _Noreturn void child_fail(const char *what, int r)
{
	(void)dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(-r));
	_exit(r == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static _Noreturn void run_child(const struct proc_spec *spec)
{
	int r;

	become_ordinary();
	r = place_fds(spec->fds, ARRAY_SIZE(spec->fds));
	if (r < 0)
		child_fail("setting up descriptors", r);
	if (spec->on_terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		child_fail("terminal", -errno);
	if (spec->cwd_fd >= 0 && fchdir(spec->cwd_fd) < 0)
		child_fail("working directory", -errno);
	r = become_user(spec->user);
	if (r < 0)
		child_fail("changing the user", r);
	environ = spec->envp; /* execvp() looks for PATH there */
	/* execvp() has no const in its prototype and changes nothing.
	 * NOLINTNEXTLINE(performance-no-int-to-ptr) */
	(void)execvp(spec->argv[0], (char *const *)(uintptr_t)spec->argv);
	child_fail(spec->argv[0], -errno);
}

int proc_spawn(const struct proc_spec *spec, pid_t *ret_pid)
{
	pid_t pid = clone_into(spec->cgroup_fd);

	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_child(spec);
	*ret_pid = pid;
	return 0;
}

pid_t proc_fork(int cgroup_fd, const int *fds, size_t fd_count)
{
	pid_t pid = clone_into(cgroup_fd);

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		become_ordinary();
		if (place_fds(fds, fd_count) < 0)
			_exit(EXIT_CANNOT_RUN);
		(void)syscall(SYS_close_range, fd_count, ~0U, 0); /* Linux 5.9 */
	}
	return pid;
}
