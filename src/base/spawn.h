/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting programs: without a shell, with only the descriptors that are named, tracked by pidfd.
 *
 * All descriptors of this program are CLOEXEC; a child gets `fds[i]` as descriptor i, and nothing
 * else. May be called from any thread (posix_spawn: no fork handlers run, no memory is copied).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { SPAWN_FDS_MAX = 16 };

struct spawn {
	const char *const *argv; /* NULL-terminated; argv[0] is looked up on the PATH */
	const char *const *env;  /* NULL: this program's own */
	const char *cwd;         /* NULL: unchanged */
	int fds[SPAWN_FDS_MAX];  /* -1: /dev/null */
	unsigned int n_fds;      /* at least 3: stdin, stdout, stderr */
	bool new_session;        /* setsid(): signals of our terminal do not reach it */
};

/* Returns 0 with the process in *ret_pid and *ret_pidfd, or an errno: -ENOENT when there is no such
 * program. */
int spawn_start(const struct spawn *sp, pid_t *ret_pid, int *ret_pidfd, struct err *err);

/* Waits for the end of our child. Returns 0..255 (the exit status) or 128 + the signal. */
int spawn_wait(int pidfd);

/* Waits until the process of that pidfd has ended, ours or not: 1, or 0 after timeout_ms. */
int spawn_ended(int pidfd, int timeout_ms);
