/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heart of the daemon: sandboxes and the templates that they come from.
 *
 * `core` owns the registry. All calls are for any thread and may block.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/console.h"
#include "core/egress.h"
#include "core/event_log.h"
#include "core/pool.h"
#include "core/sandbox_state.h"
#include "core/stats.h"
#include "core/template.h"
#include "engine/engine.h"
#include "link/link.h"
#include "store/store.h"

enum { SANDBOX_ID_SIZE = 37 }; /* a UUID and its NUL */

struct core;
struct sandbox;

struct core_config {
	const char *data_dir;     /* sandboxes, the registry */
	const char *template_dir; /* baked templates */
	const char *engine;       /* "auto" or an engine's name */
	unsigned int pool_sizes[_POOL_MAX];
	bool compress_snapshots;   /* that are taken from now on */
	struct egress_host egress; /* which lives as long as the core */
};

/* Opens the data folder (one daemon at a time: -EBUSY, ERR_CONFLICT), adopts the sandboxes whose
 * machines still run, and clears away what is left of others. */
int core_new(const struct core_config *config, struct core **ret, struct err *err);

/* keep: the machines run on for the next daemon; else they are ended and their folders removed, but for what is hibernated
 * or, being persistent, is hibernated now. */
struct core *core_free(struct core *core, bool keep);

/* What POST /v1/sandboxes asks for. */
struct sandbox_spec {
	const char *template;   /* a name or an alias */
	const json_t *metadata; /* object of strings, or NULL; checked by the caller */
	const json_t *env;      /* object of strings, or NULL; checked by the caller */
	const json_t *
		network; /* see egress.h; or NULL: the template's, the snapshot's; checked by the caller */
	int64_t ttl_seconds;       /* 0: DEFAULT_TTL_SECONDS */
	int64_t idle_seconds;      /* 0: DEFAULT_IDLE_SECONDS */
	bool persistent;           /* hibernated when idle, instead of expiring */
	const char *from_snapshot; /* an id, in place of `template`; or NULL */
	const char *parent;        /* core's own: of a fork */
	/* Or NULL: a second create with the same key gives the first's sandbox. */
	const char *idempotency_key;
};

/* A picture of a sandbox at one moment; sandbox_info_done() frees it. */
struct sandbox_info {
	char id[SANDBOX_ID_SIZE];
	char *template;
	enum sandbox_state state;
	char *failure;    /* why it failed, or NULL */
	json_t *metadata; /* object */
	json_t *network;  /* its policy: see egress.h */
	const char *engine;
	const char *isolation;
	enum accel accel;
	unsigned int cpus;
	uint64_t memory_bytes;
	int64_t created_ms; /* wall clock */
	int64_t expires_ms; /* wall clock; 0: never */
	int64_t ttl_seconds;
	int64_t idle_seconds;
	bool persistent;
	char *parent;        /* id, or NULL */
	char *from_snapshot; /* id, or NULL */
	int64_t boot_ms;
	enum boot_mode boot_mode;
	pid_t pid;
};
void sandbox_info_done(struct sandbox_info *info);
#define _cleanup_info_ CLEANUP(sandbox_info_done)

/* Creates and waits until the agent has confirmed its new identity. */
int core_create(struct core *core, const struct sandbox_spec *spec, struct sandbox **ret,
	struct err *err);

/* A reference, or NULL with ERR_SANDBOX_NOT_FOUND. */
struct sandbox *core_find(struct core *core, const char *id, struct err *err);

/* The one that was created with this idempotency key, once that has ended; a reference, or NULL. */
struct sandbox *core_find_by_key(struct core *core, const char *key);

/* Calls fn for each sandbox, oldest first, with no lock held; stops when fn returns non-zero. */
typedef int core_each_fn(struct sandbox *sb, void *user);
void core_each(struct core *core, core_each_fn *fn, void *user);

/* Ends the machine and removes all that belongs to it; returns when it is gone. */
int core_delete(struct core *core, struct sandbox *sb, struct err *err);

struct template_set *core_templates(struct core *core);
/* Removes one; spare machines of it end too. */
int core_remove_template(struct core *core, const char *name, bool force, uint64_t *ret_kept,
	struct err *err);
const struct engine_info *core_engine(struct core *core);
/* The registry, for the API keys. */
struct store *core_store(struct core *core);

/*
 * Removes what is left of things that are no more: of snapshots and forks that were not finished, versions of templates
 * that nothing uses, references of what is gone. Calls `removed` (may be NULL) for each.
 */
typedef void core_gc_fn(const char *kind, const char *name, uint64_t bytes, void *user);
int core_gc(struct core *core, core_gc_fn *removed, void *user, struct err *err);

/* For /metrics: what was counted, and what there is now. */
void core_stats(struct core *core, struct core_stats *ret);

/* sandbox.c: what one sandbox can do. */
struct sandbox *sandbox_ref(struct sandbox *sb);
struct sandbox *sandbox_unref(struct sandbox *sb);
DEFINE_CLEANUP(struct sandbox *, sandbox_unref)
#define _cleanup_sandbox_ CLEANUP(sandbox_unrefp)

const char *sandbox_id(const struct sandbox *sb);
void sandbox_get_info(struct sandbox *sb, struct sandbox_info *ret);

/* metadata.c: a copy of its metadata, an object; and one entry of it changed, or with NULL removed. ERR_TOO_MANY. */
json_t *sandbox_metadata(struct sandbox *sb);
int core_set_metadata(struct core *core, struct sandbox *sb, const char *key, const char *value,
	struct err *err);

/* A call on it begins or ends: it does not expire in between, and its time to live begins anew with either. */
void sandbox_use_begin(struct sandbox *sb);
void sandbox_use_end(struct sandbox *sb);

/*
 * Opens a stream to its agent (the request's reference is taken). ERR_SANDBOX_FAILED
 * with the reason when it is not running. The stream's owner keeps the sandbox's reference.
 */
int sandbox_open(struct sandbox *sb, json_t *request, struct link_stream **ret, struct err *err);
/* link_call() on it. */
int sandbox_call(struct sandbox *sb, json_t *request, int64_t timeout_ms, int hangup_fd,
	json_t **ret, struct err *err);

/* The same for who only looks: one that is not RUNNING is not woken, but -EHOSTDOWN. */
int sandbox_peek(struct sandbox *sb, json_t *request, int64_t timeout_ms, int hangup_fd,
	json_t **ret, struct err *err);

/* What its machine takes of the host; -ESRCH where there is none. */
int sandbox_get_usage(struct sandbox *sb, struct vm_usage *ret);

/* network.c: its policy, a copy; and, unless ret_counters is NULL, what its helper has counted (NULL: it has none now). */
json_t *sandbox_network(struct sandbox *sb, json_t **ret_counters);
/* Changes it from now on; checked by the caller. Members that are not given stay. */
int core_set_network(struct core *core, struct sandbox *sb, const json_t *change, struct err *err);

/* After -EPIPE from a stream: replaces *err by why the sandbox died, waiting briefly for it to be
 * known. Returns the errno. */
int sandbox_explain(struct sandbox *sb, struct err *err);

/*
 * Something happened to it: for whoever reads its events (docs/observe.md has the types). Takes the payload's reference (an
 * object, or NULL). Any thread, with any lock held but core's own: nothing is waited for. A caller whom a guest or a
 * client can make call often bounds that itself, for the last EVENT_LOG_EVENTS_MAX are kept.
 */
void sandbox_event(struct sandbox *sb, const char *type, json_t *payload);
/* All of them; borrowed. */
struct event_log *sandbox_events(struct sandbox *sb);

/* What its machine's console has said since this daemon has it; borrowed. */
struct console *sandbox_console(struct sandbox *sb);
