/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry on disk: SQLite in WAL mode, the only file with SQL is store.c.
 *
 * One connection, any thread (a mutex inside). A call is one transaction: after it returns the
 * change is there, also after a crash of the daemon.
 */
#pragma once

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
	const char *failure;         /* NULL unless it failed */
	const char *idempotency_key; /* or NULL */
	int64_t created_ms;
	int64_t ttl_seconds;
	int64_t boot_ms;
	const char *accel;
	int64_t cpus;
	int64_t memory_bytes;
};

/* Opens or makes the database and brings its schema up to date. */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *s);

int store_put_sandbox(struct store *s, const struct store_sandbox *sb, struct err *err);
int store_set_failure(struct store *s, const char *id, const char *failure, struct err *err);
int store_delete_sandbox(struct store *s, const char *id, struct err *err);

/* Calls fn for each row, oldest first; the strings live for the call only. fn must not call back. */
typedef int store_sandbox_fn(const struct store_sandbox *sb, void *user);
int store_each_sandbox(struct store *s, store_sandbox_fn *fn, void *user, struct err *err);

/* API keys: only a hash is kept. `label` may be NULL. */
int store_put_key(struct store *s, const char *prefix, const char *hash_hex, const char *label,
	int64_t created_ms, struct err *err);
typedef int store_key_fn(const char *prefix, const char *hash_hex, const char *label,
	int64_t created_ms, void *user);
int store_each_key(struct store *s, store_key_fn *fn, void *user, struct err *err);
