/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox: sandbox.c (its state and use), machine.c (its machine), and what they have for the other files of core. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "core/egress.h"
#include "core/event_log.h"
#include "core/pool.h"

/* From the end of a machine's link to the end of its process. */
enum { DEATH_NOTICE_MS = 500 };

struct sandbox {
	/* Fixed once it is in the registry: */
	struct core *core; /* borrowed: the registry outlives its sandboxes' users */
	char id[SANDBOX_ID_SIZE];
	char *dir;             /* owned */
	char *template;        /* owned */
	char *version;         /* owned; of the template */
	char *idempotency_key; /* owned, or NULL */
	json_t *env;           /* a reference; never changed, so that threads may share it */
	const char *engine;
	const char *isolation;
	enum accel accel;
	unsigned int cpus;
	uint64_t memory_bytes;
	int64_t created_ms;       /* wall clock */
	char *parent;             /* owned; id of the sandbox that it was forked from, or NULL */
	char *from_snapshot;      /* owned, or NULL */
	struct event_log *events; /* owned; with a lock of its own */
	struct console console;   /* likewise */

	atomic_uint refs;
	atomic_llong ttl_seconds;
	atomic_llong idle_seconds; /* after which a persistent one is hibernated */
	atomic_bool persistent;
	atomic_llong used_mono_ms; /* when it was used last */
	atomic_uint users;         /* calls under way; over 0, it neither expires nor is idle */
	struct sandbox *next;      /* under core->lock */

	atomic_bool ended;      /* the machine's process has ended: the keeper sees to it */
	atomic_bool offline;    /* its egress helper has ended: likewise */
	atomic_llong broken_ms; /* since when (clock_mono_ms()) its link is dead; 0: it is not */
	char broken_why[256];   /* written once, before `broken_ms` */

	pthread_mutex_t
		op; /* held while it is paused, captured, hibernated, woken or deleted; before `teardown` */
	pthread_mutex_t teardown; /* held by who takes the machine apart; before `lock` */
	pthread_mutex_t lock;     /* protects all below */
	pthread_cond_t changed;   /* `state` has changed */
	json_t *metadata;         /* owned; replaced by core_set_metadata(), under `op` too */
	enum sandbox_state state;
	enum sandbox_state registered; /* what the earlier daemon left; CREATING: not known */
	char *failure;                 /* owned, or NULL */
	struct vm *vm;                 /* owned; NULL once the machine is gone */
	struct link *link;             /* a reference; NULL likewise */
	struct egress *egress;         /* owned; NULL likewise, and where there is no way out */
	int64_t network_began_ms;      /* when it was made */
	json_t *network;               /* owned; its policy: see egress.h */
	struct link_watch *end_watch;
	struct link_watch *console_watch;
	int64_t boot_us;
	enum boot_mode boot_mode;
};

/* A random UUID. */
void core_make_id(char dst[SANDBOX_ID_SIZE]);

/* What a machine is restored from. Borrowed. */
struct sandbox_source {
	const struct template *t;
	const char *state_dir; /* a captured state (sandbox_capture()); NULL: the template's own */
};

/* How long a capture took and what it gave. */
struct capture_stats {
	int64_t pause_us;
	uint64_t delta_bytes;
};

/* A new one, CREATING, with a fresh id and one reference. Strings and JSON are taken from the spec. */
struct sandbox *sandbox_new(struct core *core, const char *data_dir, const struct template *t,
	const struct sandbox_spec *spec, const struct engine_info *engine);
/* One that an earlier daemon registered. */
struct sandbox *sandbox_from_row(struct core *core, const char *data_dir,
	const struct store_sandbox *row, const struct engine_info *engine);

/*
 * Makes the folder, restores the machine and gives it its identity; of a spare (or NULL) machine and folder are taken, and the
 * rest is the caller's. The caller cleans up.
 */
int sandbox_boot(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct sandbox_source *source, struct spare *spare, struct err *err);
/* Whether its machine can be a spare that waits for a state of its template's memory. */
bool sandbox_source_fits_spare(const struct sandbox_source *source);
/* What makes a machine the one of that id, with a way out; env may be NULL. */
json_t *sandbox_identity_request(const char *id, const json_t *env);
/* To a machine that goes on after a pause: the time, fresh entropy, and what it may reach. */
json_t *sandbox_go_on_request(struct sandbox *sb);
/* Takes over the running machine. */
int sandbox_adopt(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	struct err *err);

/*
 * The following are for the holder of `op`.
 *
 * sandbox_capture() writes the state of a RUNNING or PAUSED machine into `dir`, an existing folder: `devices`, `delta`,
 * `scratch.ext4`, and `memory` where that is not its template's. A machine that runs stands still meanwhile; to hibernate:
 * and, when that worked, from then on.
 */
struct capture_spec {
	const char *dir;
	/* What state_flatten() once made of this sandbox, for `memory`. NULL or gone: what its machine stands on. */
	const char *base;
	enum capture_use use;
	bool was_paused;
};
int sandbox_capture(struct sandbox *sb, const struct engine_ops *ops,
	const struct capture_spec *spec, struct capture_stats *ret, struct err *err);
int sandbox_pause(struct sandbox *sb, const struct engine_ops *ops, struct err *err);
int sandbox_unpause(struct sandbox *sb, const struct engine_ops *ops, struct err *err);
/* What was to stop a machine that runs has failed, and has stopped it or not: it runs again, or is over. */
void sandbox_put_back(struct sandbox *sb, const struct engine_ops *ops);
/* To `hibernated` in its folder, and back. */
int sandbox_hibernate(struct sandbox *sb, const struct engine_ops *ops, struct err *err);
int sandbox_wake(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct template *t, struct err *err);

/* network.c: starts the helper of a machine that was just started, or finds that of one that was adopted, if it has a way out. `vm` is
 * set. */
int sandbox_start_network(struct sandbox *sb, struct err *err);
int sandbox_adopt_network(struct sandbox *sb, struct err *err);
/* For who takes the machine apart; keep: the helper stays with it. */
void sandbox_end_network(struct sandbox *sb, bool keep);
bool sandbox_has_network(struct sandbox *sb);
/* How its package managers find the daemon's cache; borrowed from the core's configuration; NULL: they don't. */
const json_t *sandbox_packages(struct sandbox *sb);
/* Starts the helper anew when it has ended. Returns when to look again, as sandbox_check_end(). */
int64_t sandbox_check_network(struct sandbox *sb);
/* When a keeper looks again at what somebody else was busy with. */
enum { BUSY_LOOK_MS = 1000 };

/* It is used now. */
void sandbox_touch(struct sandbox *sb);
/* When it expires and when it has been idle for long enough to be hibernated (clock_mono_ms()); INT64_MAX: never. */
int64_t sandbox_expires(const struct sandbox *sb);
int64_t sandbox_idle_at(const struct sandbox *sb);

enum sandbox_state sandbox_state_of(struct sandbox *sb);
/* True when the change was allowed and made. Wakes the keepers. */
bool sandbox_set_state(struct sandbox *sb, enum sandbox_state to);
/* To FAILED: kills the machine if it still runs, keeps the reason. False if its state does not lead there. */
bool sandbox_fail(struct sandbox *sb, const char *why);
/* Makes it FAILED and says why, if its process has ended, or its link has broken and the process has had the
 * time to end. Returns when to look again (clock_mono_ms()), INT64_MAX for never. For the keeper. */
int64_t sandbox_check_end(struct sandbox *sb, const struct engine_ops *ops);
/* Waits until it has left CREATING. */
void sandbox_wait_created(struct sandbox *sb);
/* Waits until it is DELETED. */
void sandbox_wait_deleted(struct sandbox *sb);

/* Ends the machine (keep: lets it run) and drops link and watches; `why` is what waiting calls hear. */
void sandbox_detach(struct sandbox *sb, bool keep, const char *why);

/* core.c: its template's version must be there when the sandbox is captured, or wakes. Its folder is there. */
int core_hold_template(struct core *core, const struct sandbox *sb, struct err *err);

/* core.c: wakes a HIBERNATED sandbox, or waits for who does. 0 when it is running. */
int core_auto_wake(struct core *core, struct sandbox *sb, struct err *err);

/* keeper.c: the keepers shall look: a machine, a link or a sandbox is no longer what it was. For any thread that does not hold
 * core's lock; waits for nothing else. */
void core_wake_keeper(struct core *core);
/* core.c: writes the state to the registry. */
int core_note_state(struct core *core, struct sandbox *sb, enum sandbox_state state,
	struct err *err);
/* core.c: writes the failure to the registry. */
void core_note_failure(struct core *core, struct sandbox *sb);
/* stats.c: a machine was captured. */
void core_count_capture(struct core *core, enum capture_use use, const struct capture_stats *stats);
