/* SPDX-License-Identifier: Apache-2.0 */
/* What core.c (the registry) and sandbox.c (one sandbox) share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"

struct sandbox {
	/* Fixed once it is in the registry: */
	struct core *core; /* borrowed: the registry outlives its sandboxes' users */
	char id[SANDBOX_ID_SIZE];
	char *dir;             /* owned */
	char *template;        /* owned */
	char *version;         /* owned; of the template */
	char *idempotency_key; /* owned, or NULL */
	json_t *metadata;      /* a reference; never changed, so that threads may share it */
	json_t *env;           /* likewise */
	const char *engine;
	const char *isolation;
	enum accel accel;
	unsigned int cpus;
	uint64_t memory_bytes;
	int64_t created_ms; /* wall clock */
	int64_t ttl_seconds;

	atomic_uint refs;
	atomic_llong expires_mono_ms;
	atomic_uint users;    /* calls under way; over 0, it does not expire */
	struct sandbox *next; /* under core->lock */

	atomic_bool ended;      /* the machine's process has ended: the keeper sees to it */
	atomic_llong broken_ms; /* since when (clock_mono_ms()) its link is dead; 0: it is not */
	char broken_why[256];   /* written once, before `broken_ms` */

	pthread_mutex_t teardown; /* held by who takes the machine apart; before `lock` */
	pthread_mutex_t lock;     /* protects all below */
	pthread_cond_t changed;   /* `state` has changed */
	enum sandbox_state state;
	char *failure;     /* owned, or NULL */
	struct vm *vm;     /* owned; NULL once the machine is gone */
	struct link *link; /* a reference; NULL likewise */
	struct link_watch *end_watch;
	struct link_watch *console_watch;
	int64_t boot_ms;
};

/* A new one, CREATING, with a fresh id and one reference. Strings and JSON are taken from the spec. */
struct sandbox *sandbox_new(struct core *core, const char *data_dir, const struct template *t,
	const struct sandbox_spec *spec, const struct engine_info *engine);
/* One that an earlier daemon registered. */
struct sandbox *sandbox_from_row(struct core *core, const char *data_dir,
	const struct store_sandbox *row, const struct engine_info *engine);

/* Makes the folder, restores the machine and gives it its identity. The caller cleans up. */
int sandbox_boot(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct template *t, struct err *err);
/* Takes over the running machine. */
int sandbox_adopt(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	struct err *err);

/* Puts the expiry off to now + ttl. */
void sandbox_touch(struct sandbox *sb);

enum sandbox_state sandbox_state_of(struct sandbox *sb);
/* True when the change was allowed and made. */
bool sandbox_set_state(struct sandbox *sb, enum sandbox_state to);
/* RUNNING → FAILED: kills the machine if it still runs, keeps the reason. False if it was not RUNNING. */
bool sandbox_fail(struct sandbox *sb, const char *why);
/* Makes it FAILED and says why, if its process has ended, or its link has broken and the process has had the
 * time to end. Returns when to look again (clock_mono_ms()), INT64_MAX for never. For the keeper. */
int64_t sandbox_check_end(struct sandbox *sb, const struct engine_ops *ops);
/* Waits until it has left CREATING. */
void sandbox_wait_created(struct sandbox *sb);
/* Waits until it is DELETED. */
void sandbox_wait_deleted(struct sandbox *sb);

/* Ends the machine (keep: lets it run) and drops link and watches. */
void sandbox_detach(struct sandbox *sb, bool keep);

/* core.c: the keeper shall look, because a machine or a link has ended. For any thread that does not hold
 * core's lock; waits for nothing else. */
void core_wake_keeper(struct core *core);
/* core.c: writes the failure to the registry. */
void core_note_failure(struct core *core, struct sandbox *sb);
