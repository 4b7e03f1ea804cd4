/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: a group for each command and kernel, so that a whole tree of processes can be
 * killed and told apart, whatever sessions and groups it made for itself.
 *
 * Where no cgroup2 hierarchy is at hand (tests on a host) a group has `dir_fd` -1 and stands for
 * the process group of its leader, which is the best that can be done there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct cgroup_tree {
	int dir_fd; /* owned; -1: no control groups */
	uint64_t next_id;
	uint64_t pids_max;     /* of each group: half of what the machine can have; 0: no limit */
	struct list leftovers; /* groups that outlived their command */
};

struct cgroup {
	struct list node;
	struct cgroup_tree *tree;
	int dir_fd; /* owned */
	pid_t leader;
	char name[40];
};

/* The tree below `path` (a cgroup2 directory of our own), or one without control groups where
 * path is NULL. */
int cgroup_tree_init(struct cgroup_tree *tree, const char *path);
void cgroup_tree_done(struct cgroup_tree *tree);

/*
 * Divides the machine, as PID 1: the caller into `agent`, with a share of processor and memory
 * that nothing can take away, and all others below `work`, which is what cgroup_tree_init() gets.
 * `mount_path` is where the cgroup2 file system is mounted.
 */
int cgroup_divide_machine(const char *mount_path);

/* Removes groups that have become empty. */
void cgroup_sweep(struct cgroup_tree *tree);

/* Never NULL: without control groups, or when making one fails, it is a group of the second kind. */
struct cgroup *cgroup_new(struct cgroup_tree *tree, const char *kind);

/* Ends the group's use. Processes that are still in it live on. */
struct cgroup *cgroup_release(struct cgroup *cg);

int cgroup_attach(struct cgroup *cg, pid_t pid);

/* SIGKILL for every process in the group. */
void cgroup_kill(struct cgroup *cg);

/* The same for all but `spare`, and only if started at `since_ticks` (see cgroup_now_ticks()) or
 * later. */
void cgroup_kill_others(struct cgroup *cg, pid_t spare, uint64_t since_ticks);

/* Time since boot in the unit of a process's start time. */
uint64_t cgroup_now_ticks(void);

/* True while any process is in the group; false where that cannot be known. */
bool cgroup_populated(const struct cgroup *cg);

/* The number behind a key in one of a group's files ("memory.events", "oom"); 0 where there is none. */
uint64_t cgroup_value(int dir_fd, const char *file, const char *key);

/* The most memory that it may have, bytes; 0: any. */
uint64_t cgroup_limit(int dir_fd);

/* How often the kernel's out-of-memory killer has struck in the group. */
uint64_t cgroup_oom_kills(const struct cgroup *cg);
