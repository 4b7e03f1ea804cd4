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
	.failure = "it broke",
	.idempotency_key = "key-1",
	.created_ms = 1795965360123,
	.ttl_seconds = 3600,
	.boot_ms = 250,
	.accel = "tcg",
	.cpus = 2,
	.memory_bytes = (int64_t)8 << 30,
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
	return buf_appendf(user, "%s %s %s %s %s %s %s %s %lld %lld %lld %s %lld %lld;", sb->id,
		sb->template, sb->version, sb->engine, sb->metadata, sb->env,
		sb->failure ? sb->failure : "-", sb->idempotency_key ? sb->idempotency_key : "-",
		(long long)sb->created_ms, (long long)sb->ttl_seconds, (long long)sb->boot_ms,
		sb->accel, (long long)sb->cpus, (long long)sb->memory_bytes);
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
		"8589934592;");
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
		.accel = "kvm",
		.created_ms = 2};
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
		"c t v e {} {} - - 1 0 0 kvm 0 0;"
		"a t v e {} {} '; DROP TABLE sandbox; -- - 2 0 0 kvm 0 0;");
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
