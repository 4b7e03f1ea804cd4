/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured machines: snapshots, which stay, and forks, which are captured and restored at once.
 *
 * All calls are for any thread and may block.
 */
#pragma once

#include "core/core.h"

struct snapshot;

/* What a snapshot is; strings live as long as the reference. */
struct snapshot_info {
	const char *id;
	const char *sandbox_id; /* which it was taken of; it may be gone */
	const char *template;
	const char *version;
	const char *engine;
	int64_t created_ms; /* wall clock */
	uint64_t memory_bytes;
	uint64_t delta_bytes; /* pages that it holds */
	uint64_t size_bytes;  /* on the disk */
	int64_t pause_us;     /* how long the sandbox stood still */
};

struct snapshot *snapshot_ref(struct snapshot *s);
struct snapshot *snapshot_unref(struct snapshot *s);
DEFINE_CLEANUP(struct snapshot *, snapshot_unref)
#define _cleanup_snapshot_ CLEANUP(snapshot_unrefp)
void snapshot_get_info(const struct snapshot *s, struct snapshot_info *ret);

/* Takes one of a running, paused or hibernated sandbox. ERR_CONFLICT in another state. */
int core_snapshot(struct core *core, struct sandbox *sb, struct snapshot **ret, struct err *err);
/* A reference, or NULL with ERR_SNAPSHOT_NOT_FOUND. */
struct snapshot *core_find_snapshot(struct core *core, const char *id, struct err *err);
/* Calls fn for each, oldest first, with no lock held; stops when fn returns non-zero. */
typedef int core_each_snapshot_fn(struct snapshot *s, void *user);
void core_each_snapshot(struct core *core, core_each_snapshot_fn *fn, void *user);
int core_delete_snapshot(struct core *core, struct snapshot *s, struct err *err);

enum { FORK_CHILDREN_MAX = 16 };

struct fork_spec {
	unsigned int count;     /* 1 to FORK_CHILDREN_MAX */
	const json_t *metadata; /* object of strings, laid over the parent's; or NULL */
	bool allow_partial;     /* what could be made stays, if anything could */
	bool tree; /* mark the children as siblings (fork_tree_id … in their metadata) */
};

struct fork_result {
	char id[SANDBOX_ID_SIZE]; /* of the fork; with `tree`, of the tree */
	int64_t pause_us;
	uint64_t delta_bytes;
	struct sandbox *children[FORK_CHILDREN_MAX]; /* references; NULL where it failed */
	struct err errors[FORK_CHILDREN_MAX];        /* why */
};
void fork_result_done(struct fork_result *r);

/* One pause, `count` children. Without allow_partial all or none. The same states as core_snapshot(). */
int core_fork(struct core *core, struct sandbox *sb, const struct fork_spec *spec,
	struct fork_result *ret, struct err *err);

/* Stop and go. ERR_CONFLICT in a state that does not allow it; 0 when it is so already. */
int core_pause(struct core *core, struct sandbox *sb, struct err *err);
int core_resume(struct core *core, struct sandbox *sb, struct err *err);
/* To the disk, and back. The same. */
int core_hibernate(struct core *core, struct sandbox *sb, struct err *err);
int core_wake(struct core *core, struct sandbox *sb, struct err *err);

/* NULL members stay as they are. */
struct lifecycle {
	const int64_t *ttl_seconds;
	const int64_t *idle_seconds;
	const bool *persistent;
};
int core_set_lifecycle(struct core *core, struct sandbox *sb, const struct lifecycle *change,
	struct err *err);
