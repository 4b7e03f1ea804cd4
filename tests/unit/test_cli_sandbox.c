/* SPDX-License-Identifier: Apache-2.0 */
/* Naming sandboxes: by the beginning of an id, and in front of a path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/sandbox.h"

static const char list_json[] = "[{\"id\":\"abc1\"},{\"id\":\"abd2\"},{\"id\":\"abd23\"},{},5]";

/* want: the id, or NULL where `kind` is the error. */
static void expect_match(const char *prefix, const char *want, enum err_kind kind)
{
	json_t *list = json_loads(list_json, 0, NULL);
	const char *id = NULL;
	struct err err = {0};
	int r = sandbox_match(list, prefix, &id, &err);

	if (want) {
		assert_int_equal(r, 0);
		assert_string_equal(id, want);
	} else {
		assert_true(r < 0);
		assert_int_equal(err.kind, kind);
	}
	json_decref(list);
}

static void test_match(void **state)
{
	expect_match("abc", "abc1", ERR_NONE);
	expect_match("abc1", "abc1", ERR_NONE);
	expect_match("abd2", "abd2", ERR_NONE); /* whole, though another begins with it */
	expect_match("abd23", "abd23", ERR_NONE);
	expect_match("abd", NULL, ERR_INVALID);
	expect_match("x", NULL, ERR_SANDBOX_NOT_FOUND);
	expect_match("abc12", NULL, ERR_SANDBOX_NOT_FOUND);
	expect_match("", NULL, ERR_SANDBOX_NOT_FOUND);
}

static void test_match_snapshot(void **state)
{
	json_t *list = json_loads(list_json, 0, NULL);
	const char *id = NULL;
	struct err err = {0};

	assert_int_equal(snapshot_match(list, "abc", &id, &err), 0);
	assert_string_equal(id, "abc1");
	assert_true(snapshot_match(list, "abd", &id, &err) < 0);
	assert_non_null(strstr(err.msg, "snapshot's"));
	assert_true(snapshot_match(list, "x", &id, &err) < 0);
	assert_int_equal(err.kind, ERR_SNAPSHOT_NOT_FOUND);
	assert_non_null(strstr(err.msg, "pandastack snapshot list"));
	json_decref(list);
}

static void expect_remote(const char *arg, const char *want_id, const char *want_path)
{
	char *id = NULL;
	const char *path = NULL;

	assert_true(sandbox_split_path(arg, &id, &path));
	assert_string_equal(id, want_id);
	assert_string_equal(path, want_path);
	free(id);
}

static void expect_local(const char *arg)
{
	char *id = NULL;
	const char *path = NULL;

	assert_false(sandbox_split_path(arg, &id, &path));
	assert_null(id);
	assert_null(path);
}

static void test_split_path(void **state)
{
	expect_remote("ab:/x/y", "ab", "/x/y");
	expect_remote("ab:/x:y", "ab", "/x:y");
	expect_remote("ab:", "ab", "");
	expect_local("file");
	expect_local("./a:b");
	expect_local("/a:b");
	expect_local(":x");
	expect_local("-");
	expect_local("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_match_snapshot),
		cmocka_unit_test(test_split_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
