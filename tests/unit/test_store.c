/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: what is put comes back after a reopen, keys are unique, a newer schema is refused. */
#include <errno.h>
#include <sqlite3.h>

#include "base/buf.h"
#include "scratch.h"
#include "store/store.h"

static const struct store_sandbox full = {
	.id = "s1",
	.template = "base",
	.version = "00ff",
	.engine = "qemu",
	.metadata = "{\"k\":\"v\"}",
	.env = "{}",
	.network = "{\"egress\":\"none\"}",
	.failure = "it broke",
	.idempotency_key = "key-1",
	.created_ms = 1795965360123,
	.ttl_seconds = 3600,
	.boot_ms = 250,
	.accel = "tcg",
	.cpus = 2,
	.memory_bytes = (int64_t)8 << 30,
	.state = "running",
	.persistent = 1,
	.idle_seconds = 60,
	.parent = "s0",
	.from_snapshot = "p1",
	.boot_mode = "fork",
};

static struct store *open_store(const char *dir)
{
	_cleanup_free_ char *path = fs_join(dir, "db");
	struct err err = {0};
	struct store *s = NULL;

	if (store_open(path, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static int add_text(const struct store_sandbox *sb, void *user)
{
	return buf_appendf(user,
		"%s %s %s %s %s %s %s %s %lld %lld %lld %s %lld %lld %s %lld %lld %s %s %s %s;",
		sb->id, sb->template, sb->version, sb->engine, sb->metadata, sb->env,
		sb->failure ? sb->failure : "-", sb->idempotency_key ? sb->idempotency_key : "-",
		(long long)sb->created_ms, (long long)sb->ttl_seconds, (long long)sb->boot_ms,
		sb->accel, (long long)sb->cpus, (long long)sb->memory_bytes, sb->state,
		(long long)sb->persistent, (long long)sb->idle_seconds,
		sb->parent ? sb->parent : "-", sb->from_snapshot ? sb->from_snapshot : "-",
		sb->boot_mode, sb->network);
}

static void holds(struct store *s, const char *want)
{
	_cleanup_buf_ struct buf text = buf_init(4096);

	assert_int_equal(store_each_sandbox(s, add_text, &text, NULL), 0);
	assert_string_equal(text.data ? text.data : "", want);
}

static void test_round_trip(void **state)
{
	struct store *s = open_store(*state);

	holds(s, "");
	assert_int_equal(store_put_sandbox(s, &full, NULL), 0);
	store_close(s);
	s = open_store(*state);
	holds(s,
		"s1 base 00ff qemu {\"k\":\"v\"} {} it broke key-1 1795965360123 3600 250 tcg 2 "
		"8589934592 running 1 60 s0 p1 fork {\"egress\":\"none\"};");
	store_close(s);
}

static void test_order_and_changes(void **state)
{
	struct store_sandbox row = {.id = "b",
		.template = "t",
		.version = "v",
		.engine = "e",
		.metadata = "{}",
		.env = "{}",
		.network = "{}",
		.accel = "kvm",
		.created_ms = 2,
		.state = "running",
		.boot_mode = "snapshot"};
	struct store *s = open_store(*state);

	assert_int_equal(store_put_sandbox(s, &row, NULL), 0);
	row.id = "a";
	assert_int_equal(store_put_sandbox(s, &row, NULL), 0); /* no key is not a key */
	row.id = "c";
	row.created_ms = 1;
	assert_int_equal(store_put_sandbox(s, &row, NULL), 0);
	assert_int_equal(store_set_failure(s, "a", "'; DROP TABLE sandbox; --", NULL), 0);
	assert_int_equal(store_delete_sandbox(s, "b", NULL), 0);
	assert_int_equal(store_delete_sandbox(s, "none", NULL), 0);
	holds(s,
		"c t v e {} {} - - 1 0 0 kvm 0 0 running 0 0 - - snapshot {};"
		"a t v e {} {} '; DROP TABLE sandbox; -- - 2 0 0 kvm 0 0 running 0 0 - - snapshot {};");
	store_close(s);
}

static void test_unique(void **state)
{
	struct store *s = open_store(*state);
	struct store_sandbox row = full;
	struct err err = {0};

	assert_int_equal(store_put_sandbox(s, &full, NULL), 0);
	row.idempotency_key = "key-2";
	assert_true(store_put_sandbox(s, &row, &err) < 0); /* the same id */
	row.id = "s2";
	row.idempotency_key = "key-1";
	assert_true(store_put_sandbox(s, &row, &err) < 0);
	assert_non_null(strstr(err.msg, "idempotency_key"));
	row.idempotency_key = "key-2";
	assert_int_equal(store_put_sandbox(s, &row, &err), 0); /* works on after a refusal */
	store_close(s);
}

static void test_lifecycle(void **state)
{
	struct store *s = open_store(*state);

	assert_int_equal(store_put_sandbox(s, &full, NULL), 0);
	assert_int_equal(store_set_state(s, "s1", "paused", false, NULL), 0);
	assert_int_equal(store_set_lifecycle(s, "s1", 7, 0, 9, NULL), 0);
	assert_int_equal(store_set_lifecycle(s, "none", 1, 1, 1, NULL), 0);
	assert_int_equal(store_set_metadata(s, "s1", "{\"port.80\":\"\"}", NULL), 0);
	holds(s,
		"s1 base 00ff qemu {\"port.80\":\"\"} {} it broke key-1 1795965360123 7 250 tcg 2 "
		"8589934592 paused 0 9 s0 p1 fork {\"egress\":\"none\"};");
	assert_int_equal(store_set_state(s, "s1", "hibernated", true, NULL), 0);
	store_close(s);
	s = open_store(*state);
	holds(s,
		"s1 base 00ff qemu {\"port.80\":\"\"} {} it broke key-1 1795965360123 7 250 tcg 2 "
		"8589934592 hibernated 0 9 s0 p1 fork {\"egress\":\"none\"};");
	store_close(s);
}

static int add_snapshot(const struct store_snapshot *row, void *user)
{
	return buf_appendf(user, "%s %s %s %s %s %s %s %s %lld %lld %lld %lld %lld %lld %s;",
		row->id, row->sandbox_id, row->template, row->version, row->engine, row->env,
		row->accel, row->hash, (long long)row->created_ms, (long long)row->cpus,
		(long long)row->memory_bytes, (long long)row->delta_bytes,
		(long long)row->size_bytes, (long long)row->pause_us, row->network);
}

static void holds_snapshots(struct store *s, const char *want)
{
	_cleanup_buf_ struct buf text = buf_init(4096);

	assert_int_equal(store_each_snapshot(s, add_snapshot, &text, NULL), 0);
	assert_string_equal(text.data ? text.data : "", want);
}

static void test_snapshots(void **state)
{
	struct store *s = open_store(*state);
	struct store_snapshot row = {.id = "p2",
		.sandbox_id = "s1",
		.template = "base",
		.version = "00ff",
		.engine = "qemu",
		.env = "{}",
		.network = "{}",
		.accel = "tcg",
		.hash = "abcd",
		.created_ms = 9,
		.cpus = 1,
		.memory_bytes = (int64_t)8 << 30,
		.delta_bytes = 3,
		.size_bytes = 4,
		.pause_us = 5};

	assert_int_equal(store_put_snapshot(s, &row, NULL), 0);
	assert_true(store_put_snapshot(s, &row, NULL) < 0); /* the same id */
	row.id = "p1";
	row.created_ms = 8;
	assert_int_equal(store_put_snapshot(s, &row, NULL), 0);
	store_close(s);
	s = open_store(*state);
	holds_snapshots(s,
		"p1 s1 base 00ff qemu {} tcg abcd 8 1 8589934592 3 4 5 {};"
		"p2 s1 base 00ff qemu {} tcg abcd 9 1 8589934592 3 4 5 {};");
	assert_int_equal(store_delete_snapshot(s, "p1", NULL), 0);
	assert_int_equal(store_delete_snapshot(s, "none", NULL), 0);
	holds_snapshots(s, "p2 s1 base 00ff qemu {} tcg abcd 9 1 8589934592 3 4 5 {};");
	row.id = NULL;
	row.hash = NULL;
	assert_true(store_put_snapshot(s, &row, NULL) < 0);
	store_close(s);
}

static int stop(const struct store_sandbox *sb, void *user)
{
	++*(int *)user;
	return -ECANCELED;
}

static void test_callback_stops(void **state)
{
	struct store *s = open_store(*state);
	struct store_sandbox row = full;
	int calls = 0;

	assert_int_equal(store_put_sandbox(s, &full, NULL), 0);
	row.id = row.idempotency_key = "s2";
	assert_int_equal(store_put_sandbox(s, &row, NULL), 0);
	assert_int_equal(store_each_sandbox(s, stop, &calls, NULL), -ECANCELED);
	assert_int_equal(calls, 1);
	store_close(s);
}

static int add_key(const char *prefix, const char *hash, const char *label, int64_t created_ms,
	void *user)
{
	return buf_appendf(user, "%s %s %s %lld;", prefix, hash, label ? label : "-",
		(long long)created_ms);
}

static void test_keys(void **state)
{
	_cleanup_buf_ struct buf text = buf_init(4096);
	struct store *s = open_store(*state);

	assert_int_equal(store_put_key(s, "pds_b", "h2", NULL, 2, NULL), 0);
	assert_int_equal(store_put_key(s, "pds_a", "h1", "mine", 1, NULL), 0);
	assert_true(store_put_key(s, "pds_c", "h1", NULL, 3, NULL) < 0);
	assert_int_equal(store_each_key(s, add_key, &text, NULL), 0);
	assert_string_equal(text.data, "pds_a h1 mine 1;pds_b h2 - 2;");
	store_close(s);
}

static void set_schema(const char *dir, const char *sql)
{
	_cleanup_free_ char *path = fs_join(dir, "db");
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A registry of the first version, with a sandbox in it. */
static void test_from_version_1(void **state)
{
	struct store *s;

	set_schema(*state,
		"CREATE TABLE sandbox ("
		"  id TEXT PRIMARY KEY, template TEXT NOT NULL, version TEXT NOT NULL,"
		"  engine TEXT NOT NULL, metadata TEXT NOT NULL, env TEXT NOT NULL, failure TEXT,"
		"  idempotency_key TEXT UNIQUE, created_ms INTEGER NOT NULL,"
		"  ttl_seconds INTEGER NOT NULL, boot_ms INTEGER NOT NULL, accel TEXT NOT NULL,"
		"  cpus INTEGER NOT NULL, memory_bytes INTEGER NOT NULL) STRICT;"
		"CREATE TABLE api_key (hash TEXT PRIMARY KEY, prefix TEXT NOT NULL, label TEXT,"
		"  created_ms INTEGER NOT NULL) STRICT;"
		"INSERT INTO sandbox VALUES"
		"  ('s1', 't', 'v', 'e', '{}', '{}', NULL, 'k', 1, 2, 3, 'tcg', 4, 5);"
		"PRAGMA user_version = 1");
	s = open_store(*state);
	holds(s, "s1 t v e {} {} - k 1 2 3 tcg 4 5 running 0 300 - - snapshot {};");
	holds_snapshots(s, "");
	assert_int_equal(store_put_sandbox(s, &full, NULL) < 0, true); /* the id is taken */
	assert_int_equal(store_set_state(s, "s1", "hibernated", true, NULL), 0);
	store_close(s);
	s = open_store(*state); /* and once only */
	holds(s, "s1 t v e {} {} - k 1 2 3 tcg 4 5 hibernated 0 300 - - snapshot {};");
	store_close(s);
}

static void refuses(const char *dir, const char *why)
{
	_cleanup_free_ char *path = fs_join(dir, "db");
	struct store *s = NULL;
	struct err err = {0};

	assert_true(store_open(path, &s, &err) < 0);
	assert_null(s);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
}

static void test_newer_schema(void **state)
{
	set_schema(*state, "PRAGMA user_version = 1000");
	refuses(*state, "newer pandastack");
}

static void test_negative_schema(void **state)
{
	set_schema(*state, "PRAGMA user_version = -1");
	refuses(*state, "newer pandastack");
}

static void test_no_database(void **state)
{
	scratch_write(*state, "db", "This is no database at all, and long enough to be looked at.");
	refuses(*state, "not a database");
}

/* A migration that fails leaves the schema as it was, and says so every time. */
static void test_failed_migration(void **state)
{
	set_schema(*state, "CREATE TABLE api_key (x)");
	refuses(*state, "already exists");
	refuses(*state, "api_key already exists");
}

static void test_no_folder(void **state)
{
	_cleanup_free_ char *dir = fs_join(*state, "none");

	refuses(dir, "can't open the registry");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_round_trip),
		scratch_test(test_order_and_changes),
		scratch_test(test_unique),
		scratch_test(test_lifecycle),
		scratch_test(test_snapshots),
		scratch_test(test_from_version_1),
		scratch_test(test_callback_stops),
		scratch_test(test_keys),
		scratch_test(test_newer_schema),
		scratch_test(test_negative_schema),
		scratch_test(test_no_database),
		scratch_test(test_failed_migration),
		scratch_test(test_no_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
