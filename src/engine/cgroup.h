/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup for each machine: what its process may take of the host, and that nothing of it is left.
 *
 * It lies in the daemon's own cgroup, whose limits count for all machines together: in version 2 where the daemon is root or has been
 * given that cgroup (systemd's Delegate=yes), in version 1 where it is root. Its name is made of the number of the machine's folder, which
 * stays the same when that is renamed: so one that a machine has left is found by the folder, whoever made it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { CGROUP_FOLDERS_MAX = 3 }; /* version 1 has one for each of memory, pids and cpu */

struct cgroup {
	char *folders[CGROUP_FOLDERS_MAX]; /* owned; NULL behind the last one */
};

/*
 * Prepares for cgroup_make(): in version 2 this process may move into a child of its cgroup, `daemon`, for a cgroup that limits others
 * holds no processes itself. Where there can be none, says why.
 */
bool cgroup_prepare(char *why, size_t size);

/* Makes that of the machine in the folder `dir`, for its process to join. None, and 0, where there can be none. */
int cgroup_make(const char *dir, uint64_t memory_bytes, unsigned int cpus, struct cgroup *ret,
	struct err *err);

/* That of the process of the machine in `dir`; of a folder that a machine has left. None where there is none. */
void cgroup_of_process(pid_t pid, const char *dir, struct cgroup *ret);
void cgroup_of_folder(const char *dir, struct cgroup *ret);

/* Kills what is in it, and removes it. */
void cgroup_end(struct cgroup *c);

/* Frees the handle. */
void cgroup_done(struct cgroup *c);

/* Finds the path of a controller ("": version 2) in the text of a /proc/PID/cgroup: 0, -ENOENT, or -EPROTO for one that leads elsewhere. */
int cgroup_parse(const char *text, const char *controller, char *ret, size_t size);
