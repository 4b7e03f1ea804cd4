/* SPDX-License-Identifier: Apache-2.0 */
/* Starting processes: sessions of their own, in a control group from birth. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { PROC_GROUPS_MAX = 64 };

struct proc_user {
	uid_t uid;
	gid_t gid;
	gid_t groups[PROC_GROUPS_MAX];
	int group_count;
	char name[64];
	char home[256];
};

struct proc_spec {
	const char *const *argv;
	char **envp;
	int fds[4];                   /* become 0 to 3; -1: none (only the last may be) */
	bool on_terminal;             /* fds[0] is one, and becomes that of the new session */
	int cwd_fd;                   /* -1: stay */
	int cgroup_fd;                /* -1: none */
	const struct proc_user *user; /* NULL: stay root */
};

/* Looks an account up in the guest's /etc/passwd and /etc/group. */
int proc_user_find(const char *name, struct proc_user *ret, struct err *err);

/*
 * Starts a program. What fails in the child (a program that does not exist, most of all) is told
 * on its stderr, and it ends with 127 or 126 as in a shell.
 */
int proc_spawn(const struct proc_spec *spec, pid_t *ret_pid);

/*
 * fork() into a control group, for work that may block. In the child (0 is returned) fds[i] has
 * become descriptor i and all others are closed; it has a session of its own and default signals,
 * and must end with _exit().
 */
pid_t proc_fork(int cgroup_fd, const int *fds, size_t fd_count);
