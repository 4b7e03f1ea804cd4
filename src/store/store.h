/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry on disk: SQLite in WAL mode, the only file with SQL is store.c.
 *
 * One connection, any thread (a mutex inside). A call is one transaction: after it returns the
 * change is there, also after a crash of the daemon.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct store;

struct store_sandbox {
	const char *id;
	const char *template;
	const char *version; /* of the template */
	const char *engine;
	const char *metadata;        /* JSON */
	const char *env;             /* JSON */
	const char *network;         /* JSON */
	const char *failure;         /* NULL unless it failed */
	const char *idempotency_key; /* or NULL */
	int64_t created_ms;
	int64_t ttl_seconds;
	int64_t boot_ms;
	const char *accel;
	int64_t cpus;
	int64_t memory_bytes;
	const char *state; /* what the next daemon finds: running, paused or hibernated */
	int64_t persistent;
	int64_t idle_seconds;
	const char *parent;        /* id of the sandbox that it was forked from, or NULL */
	const char *from_snapshot; /* or NULL */
	const char *boot_mode;
};

struct store_snapshot {
	const char *id;
	const char *sandbox_id;
	const char *template;
	const char *version;
	const char *engine;
	const char *env;     /* JSON */
	const char *network; /* JSON */
	const char *accel;
	const char *hash; /* hex, of devices and disk */
	int64_t created_ms;
	int64_t cpus;
	int64_t memory_bytes;
	int64_t delta_bytes; /* pages that it holds */
	int64_t size_bytes;  /* on the disk */
	int64_t pause_us;    /* how long the sandbox stood still */
};

/* Opens or makes the database and brings its schema up to date. */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *s);

int store_put_sandbox(struct store *s, const struct store_sandbox *sb, struct err *err);
int store_set_failure(struct store *s, const char *id, const char *failure, struct err *err);
/* After a change of state or lifecycle. `durable`: it survives a crash of the whole machine, too; so do snapshots. */
int store_set_state(struct store *s, const char *id, const char *state, bool durable,
	struct err *err);
int store_set_lifecycle(struct store *s, const char *id, int64_t ttl_seconds, int64_t persistent,
	int64_t idle_seconds, struct err *err);
int store_set_network(struct store *s, const char *id, const char *network, struct err *err);
int store_set_metadata(struct store *s, const char *id, const char *metadata, struct err *err);
int store_delete_sandbox(struct store *s, const char *id, struct err *err);

/* Calls fn for each row, oldest first; the strings live for the call only. fn must not call back. */
typedef int store_sandbox_fn(const struct store_sandbox *sb, void *user);
int store_each_sandbox(struct store *s, store_sandbox_fn *fn, void *user, struct err *err);

int store_put_snapshot(struct store *s, const struct store_snapshot *snapshot, struct err *err);
int store_delete_snapshot(struct store *s, const char *id, struct err *err);
/* As store_each_sandbox(). */
typedef int store_snapshot_fn(const struct store_snapshot *snapshot, void *user);
int store_each_snapshot(struct store *s, store_snapshot_fn *fn, void *user, struct err *err);

/* API keys: only a hash is kept. `label` may be NULL. */
int store_put_key(struct store *s, const char *prefix, const char *hash_hex, const char *label,
	int64_t created_ms, struct err *err);
typedef int store_key_fn(const char *prefix, const char *hash_hex, const char *label,
	int64_t created_ms, void *user);
int store_each_key(struct store *s, store_key_fn *fn, void *user, struct err *err);
