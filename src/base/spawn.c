/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs, with posix_spawn() and pidfds. */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

/*
 * dup2() in the child goes in rising order, so a source with a number below its target could be
 * overwritten before its turn: all sources are first lifted above the targets in this process.
 */
static int add_fds(posix_spawn_file_actions_t *fa, const struct spawn *sp, int lifted[])
{
	for (unsigned int i = 0; i < sp->n_fds; i++) {
		int r;

		if (sp->fds[i] < 0) {
			r = posix_spawn_file_actions_addopen(fa, (int)i, "/dev/null", O_RDWR, 0);
		} else {
			lifted[i] = fcntl(sp->fds[i], F_DUPFD_CLOEXEC, SPAWN_FDS_MAX);
			if (lifted[i] < 0)
				return -errno;
			r = posix_spawn_file_actions_adddup2(fa, lifted[i], (int)i);
		}
		if (r)
			return -r;
	}
	return 0;
}

static int set_attributes(posix_spawnattr_t *attr, const struct spawn *sp)
{
	sigset_t all, none;
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;

	sigfillset(&all);
	sigemptyset(&none);
	if (sp->new_session)
		flags |= POSIX_SPAWN_SETSID;
	/* These only store values. */
	(void)posix_spawnattr_setsigdefault(attr, &all);
	(void)posix_spawnattr_setsigmask(attr, &none);
	return -posix_spawnattr_setflags(attr, flags);
}

int spawn_start(const struct spawn *sp, pid_t *ret_pid, int *ret_pidfd, struct err *err)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int lifted[SPAWN_FDS_MAX];
	pid_t pid;
	int r, fd;

	assert(sp->n_fds >= 3 && sp->n_fds <= SPAWN_FDS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(lifted); i++)
		lifted[i] = -1;
	(void)posix_spawn_file_actions_init(&fa); /* only stores values */
	(void)posix_spawnattr_init(&attr);
	r = add_fds(&fa, sp, lifted);
	if (r == 0) /* whoever started us may have left descriptors open */
		r = -posix_spawn_file_actions_addclosefrom_np(&fa, (int)sp->n_fds);
	if (r == 0 && sp->cwd)
		r = -posix_spawn_file_actions_addchdir_np(&fa, sp->cwd);
	if (r == 0)
		r = set_attributes(&attr, sp);
	if (r == 0)
		r = -posix_spawnp(&pid, sp->argv[0], &fa, &attr, (char *const *)(uintptr_t)sp->argv,
			sp->env ? (char *const *)(uintptr_t)sp->env : environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	for (size_t i = 0; i < ARRAY_SIZE(lifted); i++)
		cleanup_close(&lifted[i]);
	if (r < 0)
		return err_set_errno(err, r, "can't start %s", sp->argv[0]);
	fd = pidfd_open(pid, 0);
	if (fd < 0) {
		r = -errno;
		/* Ours and not yet waited for: the pid is still its own. */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return err_set_errno(err, r, "can't watch %s", sp->argv[0]);
	}
	*ret_pid = pid;
	*ret_pidfd = fd;
	return 0;
}

int spawn_wait(int pidfd)
{
	siginfo_t info = {0};

	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0) {
		if (errno != EINTR)
			return 255;
	}
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

int spawn_ended(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}
