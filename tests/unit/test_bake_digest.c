/* SPDX-License-Identifier: Apache-2.0 */
/* The digest: what changes it, and what doesn't. */
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "bake/digest.h"
#include "scratch.h"

/* The digest of texts, up to NULL. */
static void texts(char ret[DIGEST_TEXT_SIZE], const char *const list[])
{
	struct digest d;

	digest_init(&d);
	for (size_t i = 0; list[i]; i++)
		digest_text(&d, list[i]);
	digest_final(&d, ret);
}

static void tree(char ret[DIGEST_TEXT_SIZE], const char *path)
{
	struct err err = {0};
	struct digest d;

	digest_init(&d);
	if (digest_tree(&d, path, &err) < 0)
		fail_msg("%s", err.msg);
	digest_final(&d, ret);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_framing(void **state)
{
	char a[DIGEST_TEXT_SIZE], b[DIGEST_TEXT_SIZE];

	texts(a, TEXTS("ab", "c"));
	texts(b, TEXTS("ab", "c"));
	assert_string_equal(a, b);
	assert_int_equal(strlen(a), 2 * DIGEST_BYTES);
	assert_int_equal(strspn(a, "0123456789abcdef"), strlen(a));
	texts(b, TEXTS("a", "bc"));
	assert_string_not_equal(a, b);
	texts(b, TEXTS("abc"));
	assert_string_not_equal(a, b);
	texts(b, TEXTS("ab", "c", ""));
	assert_string_not_equal(a, b);
	texts(b, TEXTS("c", "ab"));
	assert_string_not_equal(a, b);
}

static void test_numbers(void **state)
{
	char a[DIGEST_TEXT_SIZE], b[DIGEST_TEXT_SIZE];
	struct digest d;

	digest_init(&d);
	digest_number(&d, 1);
	digest_final(&d, a);
	digest_init(&d);
	digest_number(&d, (uint64_t)1 << 63);
	digest_final(&d, b);
	assert_string_not_equal(a, b);
}

/* <root>/{b,a/x,z.sh}, made in the given order. */
static void make_tree(const char *root, bool reversed)
{
	_cleanup_free_ char *a = fs_join(root, "a"), *z = fs_join(root, "z.sh");

	assert_int_equal(fs_mkdirs(a, 0755, NULL), 0);
	if (reversed)
		scratch_write(root, "z.sh", "#!/bin/sh\n");
	scratch_write(a, "x", "1");
	scratch_write(root, "b", "2");
	if (!reversed)
		scratch_write(root, "z.sh", "#!/bin/sh\n");
	assert_int_equal(chmod(z, 0755), 0);
}

static void test_tree(void **state)
{
	_cleanup_free_ char *one = fs_join(*state, "one"), *two = fs_join(*state, "two");
	char a[DIGEST_TEXT_SIZE], b[DIGEST_TEXT_SIZE];

	make_tree(one, false);
	make_tree(two, true);
	tree(a, one);
	tree(b, two);
	assert_string_equal(a, b); /* where it lies and when it was made do not count */
}

static void test_caches(void **state)
{
	_cleanup_free_ char *py = fs_join(*state, "t/__pycache__"),
			    *hidden = fs_join(*state, "t/.pytest_cache");
	_cleanup_free_ char *root = fs_join(*state, "t");
	char a[DIGEST_TEXT_SIZE], b[DIGEST_TEXT_SIZE];

	make_tree(root, false);
	tree(a, root);
	assert_int_equal(fs_mkdirs(py, 0755, NULL), 0);
	assert_int_equal(fs_mkdirs(hidden, 0755, NULL), 0);
	scratch_write(py, "x.pyc", "x");
	scratch_write(hidden, "x", "x");
	scratch_write(root, ".swp", "x");
	tree(b, root);
	assert_string_equal(a, b);
}

/* Each of these is another tree. */
static void test_changes(void **state)
{
	static const char *const commands[] = {"echo 3 > t/b", "mv t/b t/c", "mv t/a t/d",
		"mv t/a/x t/x", "rm t/b", "chmod -x t/z.sh", "chmod +x t/b", "mkdir t/e",
		"mv t/b t/a/b", "ln -sf b t/b2", "ln -sf other t/b2", "ln -sf a/x t/b"};
	_cleanup_free_ char *root = fs_join(*state, "t");
	char seen[ARRAY_SIZE(commands) + 1][DIGEST_TEXT_SIZE];

	make_tree(root, false);
	tree(seen[0], root);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		_cleanup_free_ char *cmd = NULL;

		assert_true(asprintf(&cmd, "cd '%s' && %s", (const char *)*state, commands[i]) > 0);
		assert_int_equal(system(cmd), 0);
		tree(seen[i + 1], root);
		for (size_t j = 0; j <= i; j++) {
			if (strcmp(seen[j], seen[i + 1]) == 0)
				fail_msg("not seen: %s", commands[i]);
		}
		assert_int_equal(fs_remove_tree(root, NULL), 0);
		make_tree(root, false);
	}
}

static void test_single_file(void **state)
{
	_cleanup_free_ char *file = fs_join(*state, "f"), *none = fs_join(*state, "none");
	char a[DIGEST_TEXT_SIZE], b[DIGEST_TEXT_SIZE];
	struct err err = {0};
	struct digest d;

	scratch_write(*state, "f", "1");
	tree(a, file);
	scratch_write(*state, "f", "2");
	tree(b, file);
	assert_string_not_equal(a, b);
	digest_init(&d);
	assert_int_equal(digest_tree(&d, none, &err), -ENOENT);
	assert_non_null(strstr(err.msg, none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_framing),
		cmocka_unit_test(test_numbers),
		scratch_test(test_tree),
		scratch_test(test_caches),
		scratch_test(test_changes),
		scratch_test(test_single_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
