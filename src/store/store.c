/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry on disk: all the SQL of the project.
 *
 * WAL with synchronous=NORMAL: a row survives a crash of the daemon at once, and a crash of the
 * machine up to the last checkpoint, after which no vm runs any more that the row could speak of.
 * What outlives a machine's crash (snapshots, hibernated sandboxes) is written with synchronous=FULL.
 * The schema's version is `user_version`; migrations[] are applied in order, each in a transaction.
 */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>

struct store {
	sqlite3 *db;
	pthread_mutex_t lock;
};

static const char *const migrations[] = {
	"CREATE TABLE sandbox ("
	"  id TEXT PRIMARY KEY, template TEXT NOT NULL, version TEXT NOT NULL,"
	"  engine TEXT NOT NULL, metadata TEXT NOT NULL, env TEXT NOT NULL, failure TEXT,"
	"  idempotency_key TEXT UNIQUE, created_ms INTEGER NOT NULL,"
	"  ttl_seconds INTEGER NOT NULL, boot_ms INTEGER NOT NULL, accel TEXT NOT NULL,"
	"  cpus INTEGER NOT NULL, memory_bytes INTEGER NOT NULL) STRICT;"
	"CREATE TABLE api_key ("
	"  hash TEXT PRIMARY KEY, prefix TEXT NOT NULL, label TEXT, created_ms INTEGER NOT NULL) STRICT;",

	"ALTER TABLE sandbox ADD COLUMN state TEXT NOT NULL DEFAULT 'running';"
	"ALTER TABLE sandbox ADD COLUMN persistent INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandbox ADD COLUMN idle_seconds INTEGER NOT NULL DEFAULT 300;"
	"ALTER TABLE sandbox ADD COLUMN parent TEXT;"
	"ALTER TABLE sandbox ADD COLUMN from_snapshot TEXT;"
	"ALTER TABLE sandbox ADD COLUMN boot_mode TEXT NOT NULL DEFAULT 'snapshot';"
	"CREATE TABLE snapshot ("
	"  id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, template TEXT NOT NULL,"
	"  version TEXT NOT NULL, engine TEXT NOT NULL, env TEXT NOT NULL, accel TEXT NOT NULL,"
	"  hash TEXT NOT NULL, created_ms INTEGER NOT NULL, cpus INTEGER NOT NULL,"
	"  memory_bytes INTEGER NOT NULL, delta_bytes INTEGER NOT NULL,"
	"  size_bytes INTEGER NOT NULL, pause_us INTEGER NOT NULL) STRICT;",

	"ALTER TABLE sandbox ADD COLUMN network TEXT NOT NULL DEFAULT '{}';"
	"ALTER TABLE snapshot ADD COLUMN network TEXT NOT NULL DEFAULT '{}';",
};

static int db_error(struct store *s, struct err *err)
{
	/* Where it can't grow its shared memory SQLite speaks of an I/O error. */
	bool full = sqlite3_errcode(s->db) == SQLITE_FULL ||
		((sqlite3_errcode(s->db) & 0xFF) == SQLITE_IOERR &&
			sqlite3_system_errno(s->db) == ENOSPC);
	int os = full ? -ENOSPC : -EIO;

	return err_set(err, full ? ERR_NO_SPACE : ERR_INTERNAL, os, "the registry: %s",
		sqlite3_errmsg(s->db));
}

static int run(struct store *s, const char *sql, struct err *err)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(s, err);
}

static int schema_version(struct store *s, int *ret, struct err *err)
{
	sqlite3_stmt *stmt;
	int r = 0;

	if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK ||
		sqlite3_step(stmt) != SQLITE_ROW)
		r = db_error(s, err);
	else
		*ret = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	return r;
}

static int migrate(struct store *s, struct err *err)
{
	int version = 0;
	int r = schema_version(s, &version, err);

	if (r == 0 && (size_t)version > ARRAY_SIZE(migrations))
		return err_set(err, ERR_INTERNAL, -EPROTO,
			"the registry was written by a newer pandastack");
	for (size_t i = (size_t)version; r == 0 && i < ARRAY_SIZE(migrations); i++) {
		char *sql = sqlite3_mprintf("BEGIN; %s PRAGMA user_version = %d; COMMIT;",
			migrations[i], (int)i + 1);

		if (!sql)
			abort();
		r = run(s, sql, err);
		sqlite3_free(sql);
	}
	return r;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
	struct store *s = xnew(struct store);
	int r;

	(void)pthread_mutex_init(&s->lock, NULL); /* never fails on Linux */
	if (sqlite3_open_v2(path, &s->db,
		    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
		    NULL) != SQLITE_OK) {
		r = err_set(err, ERR_INTERNAL, -EIO, "can't open the registry %s: %s", path,
			s->db ? sqlite3_errmsg(s->db) : "out of memory");
		store_close(s);
		return r;
	}
	r = run(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", err);
	if (r == 0)
		r = migrate(s, err);
	if (r < 0) {
		store_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	(void)sqlite3_close(s->db); /* every statement was finalised */
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

/*
 * Prepares a statement and binds `types`: 's' a const char * (NULL: SQL's NULL), 'i' an int64_t.
 * Returns NULL after an error; the lock is held by the caller.
 */
static sqlite3_stmt *prepare(struct store *s, const char *sql, const char *types, va_list ap)
{
	sqlite3_stmt *stmt;
	int rc;

	if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return NULL;
	for (int i = 0; types[i]; i++) {
		if (types[i] == 's')
			rc = sqlite3_bind_text(stmt, i + 1, va_arg(ap, const char *), -1,
				SQLITE_STATIC);
		else
			rc = sqlite3_bind_int64(stmt, i + 1, va_arg(ap, int64_t));
		if (rc != SQLITE_OK) {
			sqlite3_finalize(stmt);
			return NULL;
		}
	}
	return stmt;
}

/* The lock is held. */
static int change_locked(struct store *s, struct err *err, const char *sql, const char *types,
	va_list ap)
{
	sqlite3_stmt *stmt = prepare(s, sql, types, ap);
	int r = 0;

	if (!stmt || sqlite3_step(stmt) != SQLITE_DONE)
		r = db_error(s, err);
	sqlite3_finalize(stmt);
	return r;
}

/* Runs one statement that changes something. */
static int change(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
	va_list ap;
	int r;

	pthread_mutex_lock(&s->lock);
	va_start(ap, types);
	r = change_locked(s, err, sql, types, ap);
	va_end(ap);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* The same, and it is on the disk when it returns. */
static int change_durably(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
	va_list ap;
	int r;

	pthread_mutex_lock(&s->lock);
	r = run(s, "PRAGMA synchronous = FULL", err);
	va_start(ap, types);
	if (r == 0)
		r = change_locked(s, err, sql, types, ap);
	va_end(ap);
	(void)run(s, "PRAGMA synchronous = NORMAL",
		NULL); /* where it fails the rest is durable, too */
	pthread_mutex_unlock(&s->lock);
	return r;
}

int store_put_sandbox(struct store *s, const struct store_sandbox *sb, struct err *err)
{
	return change(s, err,
		"INSERT INTO sandbox VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
		" ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
		"ssssssssiiisiisiissss", sb->id, sb->template, sb->version, sb->engine,
		sb->metadata, sb->env, sb->failure, sb->idempotency_key, sb->created_ms,
		sb->ttl_seconds, sb->boot_ms, sb->accel, sb->cpus, sb->memory_bytes, sb->state,
		sb->persistent, sb->idle_seconds, sb->parent, sb->from_snapshot, sb->boot_mode,
		sb->network);
}

int store_set_state(struct store *s, const char *id, const char *state, bool durable,
	struct err *err)
{
	static const char sql[] = "UPDATE sandbox SET state = ?2 WHERE id = ?1";

	return durable ? change_durably(s, err, sql, "ss", id, state)
		       : change(s, err, sql, "ss", id, state);
}

int store_set_lifecycle(struct store *s, const char *id, int64_t ttl_seconds, int64_t persistent,
	int64_t idle_seconds, struct err *err)
{
	return change(s, err,
		"UPDATE sandbox SET ttl_seconds = ?2, persistent = ?3, idle_seconds = ?4 WHERE id = ?1",
		"siii", id, ttl_seconds, persistent, idle_seconds);
}

int store_set_metadata(struct store *s, const char *id, const char *metadata, struct err *err)
{
	return change(s, err, "UPDATE sandbox SET metadata = ?2 WHERE id = ?1", "ss", id, metadata);
}

int store_set_failure(struct store *s, const char *id, const char *failure, struct err *err)
{
	return change(s, err, "UPDATE sandbox SET failure = ?2 WHERE id = ?1", "ss", id, failure);
}

int store_set_network(struct store *s, const char *id, const char *network, struct err *err)
{
	return change(s, err, "UPDATE sandbox SET network = ?2 WHERE id = ?1", "ss", id, network);
}

int store_delete_sandbox(struct store *s, const char *id, struct err *err)
{
	return change(s, err, "DELETE FROM sandbox WHERE id = ?1", "s", id);
}

static const char *text(sqlite3_stmt *stmt, int column)
{
	return (const char *)sqlite3_column_text(stmt, column);
}

/* Takes a row; anything but 0 ends the reading and is returned. */
typedef int row_fn(sqlite3_stmt *stmt, void *user);

static int each_row(struct store *s, const char *sql, row_fn *fn, void *user, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc, r = 0;

	pthread_mutex_lock(&s->lock);
	rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);
	while (rc == SQLITE_OK && r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = fn(stmt, user);
		rc = SQLITE_OK;
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_error(s, err);
	sqlite3_finalize(stmt);
	pthread_mutex_unlock(&s->lock);
	return r;
}

struct sandbox_rows {
	store_sandbox_fn *fn;
	void *user;
};

static int give_sandbox(sqlite3_stmt *stmt, void *user)
{
	const struct sandbox_rows *rows = user;
	const struct store_sandbox row = {
		.id = text(stmt, 0),
		.template = text(stmt, 1),
		.version = text(stmt, 2),
		.engine = text(stmt, 3),
		.metadata = text(stmt, 4),
		.env = text(stmt, 5),
		.failure = text(stmt, 6),
		.idempotency_key = text(stmt, 7),
		.created_ms = sqlite3_column_int64(stmt, 8),
		.ttl_seconds = sqlite3_column_int64(stmt, 9),
		.boot_ms = sqlite3_column_int64(stmt, 10),
		.accel = text(stmt, 11),
		.cpus = sqlite3_column_int64(stmt, 12),
		.memory_bytes = sqlite3_column_int64(stmt, 13),
		.state = text(stmt, 14),
		.persistent = sqlite3_column_int64(stmt, 15),
		.idle_seconds = sqlite3_column_int64(stmt, 16),
		.parent = text(stmt, 17),
		.from_snapshot = text(stmt, 18),
		.boot_mode = text(stmt, 19),
		.network = text(stmt, 20),
	};

	return rows->fn(&row, rows->user);
}

int store_each_sandbox(struct store *s, store_sandbox_fn *fn, void *user, struct err *err)
{
	struct sandbox_rows rows = {fn, user};

	return each_row(s,
		"SELECT id, template, version, engine, metadata, env, failure, idempotency_key,"
		" created_ms, ttl_seconds, boot_ms, accel, cpus, memory_bytes, state, persistent,"
		" idle_seconds, parent, from_snapshot, boot_mode, network FROM sandbox ORDER BY created_ms, id",
		give_sandbox, &rows, err);
}

int store_put_snapshot(struct store *s, const struct store_snapshot *snapshot, struct err *err)
{
	return change_durably(s, err,
		"INSERT INTO snapshot VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
		" ?14, ?15)",
		"ssssssssiiiiiis", snapshot->id, snapshot->sandbox_id, snapshot->template,
		snapshot->version, snapshot->engine, snapshot->env, snapshot->accel, snapshot->hash,
		snapshot->created_ms, snapshot->cpus, snapshot->memory_bytes, snapshot->delta_bytes,
		snapshot->size_bytes, snapshot->pause_us, snapshot->network);
}

int store_delete_snapshot(struct store *s, const char *id, struct err *err)
{
	return change(s, err, "DELETE FROM snapshot WHERE id = ?1", "s", id);
}

struct snapshot_rows {
	store_snapshot_fn *fn;
	void *user;
};

static int give_snapshot(sqlite3_stmt *stmt, void *user)
{
	const struct snapshot_rows *rows = user;
	const struct store_snapshot row = {
		.id = text(stmt, 0),
		.sandbox_id = text(stmt, 1),
		.template = text(stmt, 2),
		.version = text(stmt, 3),
		.engine = text(stmt, 4),
		.env = text(stmt, 5),
		.accel = text(stmt, 6),
		.hash = text(stmt, 7),
		.created_ms = sqlite3_column_int64(stmt, 8),
		.cpus = sqlite3_column_int64(stmt, 9),
		.memory_bytes = sqlite3_column_int64(stmt, 10),
		.delta_bytes = sqlite3_column_int64(stmt, 11),
		.size_bytes = sqlite3_column_int64(stmt, 12),
		.pause_us = sqlite3_column_int64(stmt, 13),
		.network = text(stmt, 14),
	};

	return rows->fn(&row, rows->user);
}

int store_each_snapshot(struct store *s, store_snapshot_fn *fn, void *user, struct err *err)
{
	struct snapshot_rows rows = {fn, user};

	return each_row(s,
		"SELECT id, sandbox_id, template, version, engine, env, accel, hash, created_ms, cpus,"
		" memory_bytes, delta_bytes, size_bytes, pause_us, network FROM snapshot ORDER BY created_ms, id",
		give_snapshot, &rows, err);
}

int store_put_key(struct store *s, const char *prefix, const char *hash_hex, const char *label,
	int64_t created_ms, struct err *err)
{
	return change(s, err,
		"INSERT INTO api_key (prefix, hash, label, created_ms)"
		" VALUES (?1, ?2, ?3, ?4)",
		"sssi", prefix, hash_hex, label, created_ms);
}

struct key_rows {
	store_key_fn *fn;
	void *user;
};

static int give_key(sqlite3_stmt *stmt, void *user)
{
	const struct key_rows *rows = user;

	return rows->fn(text(stmt, 0), text(stmt, 1), text(stmt, 2), sqlite3_column_int64(stmt, 3),
		rows->user);
}

int store_each_key(struct store *s, store_key_fn *fn, void *user, struct err *err)
{
	struct key_rows rows = {fn, user};

	return each_row(s,
		"SELECT prefix, hash, label, created_ms FROM api_key ORDER BY created_ms, prefix",
		give_key, &rows, err);
}
