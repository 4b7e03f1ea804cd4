/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core share: the registry (core.c), captured machines (snapshot.c, fork.c), lifecycle.c. */
#pragma once

#include <pthread.h>

#include "core/core.h"
#include "core/sandbox_internal.h"
#include "core/snapshot.h"

/* keeper.c: a thread that looks at every sandbox. */
struct keeper {
	struct core *core;
	int64_t (*see_to)(struct core *core, struct sandbox *sb); /* returns when to look again */
	pthread_t thread;
	bool runs;
	bool look; /* now; under core->lock */
};

struct core {
	char *data_dir;
	bool compress_snapshots;
	struct egress_host egress_host;
	int lock_fd; /* one daemon at a time */
	const struct engine_ops *ops;
	struct engine_info engine;
	struct template_set *templates;
	struct store *store;
	struct link_hub *hub;
	struct pool *pool;
	/* Held for reading while folders come into being that are in no list yet, for writing while such are removed. Before
	 * all other locks. */
	pthread_rwlock_t captures;

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t wake;  /* a keeper shall look, or stop */
	struct keeper keepers[2];
	bool stop;
	struct sandbox *first; /* newest last; each with a reference of the list's */
	unsigned int n;
	struct snapshot *snapshots; /* likewise */
	struct core_stats stats;
};

/*
 * Registers a new sandbox, restores its machine and makes it RUNNING; takes it apart again when that fails. -EEXIST where
 * an earlier create with the same key made *ret_same, a reference.
 */
int core_launch(struct core *core, struct sandbox *sb, const struct sandbox_source *source,
	struct sandbox **ret_same, struct err *err);

/* A template's version that this daemon's engine can run; NULL: the current one. */
int core_load_template(struct core *core, const char *name, const char *version,
	struct template **ret, struct err *err);

/* stats.c: a machine was made ready for a sandbox. */
void core_count_boot(struct core *core, enum boot_mode mode, int64_t boot_us);

int keepers_start(struct core *core, struct err *err);
/* Also after a start that failed. */
void keepers_stop(struct core *core);

/* snapshot.c: reads the registry and removes what a daemon left half-made. At the start. */
int snapshots_open(struct core *core, struct err *err);
void snapshots_close(struct core *core);

/* Makes the finished folder `work` the snapshot that the row describes. `captures` is held. */
int snapshot_register(struct core *core, const char *work, const struct store_snapshot *row,
	struct snapshot **ret, struct err *err);

/* Its folder, and the environment and the network of the sandbox that it was taken of (new references). */
const char *snapshot_dir(const struct snapshot *s);
json_t *snapshot_env(const struct snapshot *s);
json_t *snapshot_network(const struct snapshot *s);

/* Removes folders that are no snapshot's, and forgets snapshots whose folder is gone. `removed` may be NULL. */
int snapshots_sweep(struct core *core, core_gc_fn *removed, void *user, struct err *err);

/* gc.c: removes that and tells it, also to the log. */
void gc_remove(const char *kind, const char *name, const char *path, core_gc_fn *removed,
	void *user);

/* Creates a sandbox from a snapshot: fills the source; snapshot_source_done() when the machine runs. */
int snapshot_source(struct core *core, struct snapshot *s, struct sandbox_source *ret,
	struct template **ret_template, struct err *err);
void snapshot_source_done(struct snapshot *s);

/* fork.c: the next fork makes the memory that its children share anew. */
void fork_forget_shared(const struct sandbox *parent);

/* Captures a sandbox that is RUNNING, PAUSED or HIBERNATED; spec->dir is made, spec->base need not exist. `op` is not held. In
 * the last case files are copied, and nothing stands still. */
int core_capture(struct core *core, struct sandbox *sb, const struct capture_spec *spec,
	struct capture_stats *ret, struct err *err);
