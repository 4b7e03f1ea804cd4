/* SPDX-License-Identifier: Apache-2.0 */
/* files_changed: whatever a cell calls its files, its answer fits into a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/macros.h"
#include "changes.h"

/* Of all else in the answer. */
#define REST_BYTES (8 * 1024)

/* `n` paths that consist of `fill` but for a number, `len` bytes each. */
static json_t *make_paths(size_t n, char fill, size_t len)
{
	json_t *paths = json_object();
	char path[4096];

	for (size_t i = 0; i < n; i++) {
		memset(path, fill, len);
		(void)snprintf(path + len, sizeof(path) - len, "%zu", i);
		assert_int_equal(json_object_set_new(paths, path, json_true()), 0);
	}
	return paths;
}

/* Tells of them; how many are named. */
static size_t tell(json_t *paths, bool truncated, bool *ret_truncated)
{
	json_t *answer = json_object();
	const json_t *list;
	size_t n;

	changes_tell(paths, truncated, answer);
	json_decref(paths);
	assert_in_range(json_dumpb(answer, NULL, 0, JSON_COMPACT), 0,
		LIMIT_FRAME_BYTES - REST_BYTES);
	*ret_truncated = json_is_true(json_object_get(answer, "files_changed_truncated"));
	list = json_object_get(answer, "files_changed");
	assert_true(json_is_array(list));
	n = json_array_size(list);
	json_decref(answer);
	return n;
}

static void test_all_are_told(void **state)
{
	bool truncated;

	(void)state;
	assert_int_equal(tell(json_object(), false, &truncated), 0);
	assert_false(truncated);
	assert_int_equal(tell(make_paths(256, 'x', 20), false, &truncated), 256);
	assert_false(truncated);
}

static void test_too_many(void **state)
{
	bool truncated;

	(void)state;
	assert_int_equal(tell(make_paths(257, 'x', 20), false, &truncated), 256);
	assert_true(truncated);
	assert_int_equal(tell(make_paths(3, 'x', 20), true, &truncated), 3);
	assert_true(truncated);
}

/* What JSON has to escape takes up to six bytes for one. */
static void test_too_long(void **state)
{
	static const char fills[] = {'x', '"', '\\', '\n', '\1', '\x7F'};
	static const size_t lens[] = {200, 255, 1000, 4000};
	bool truncated;

	(void)state;
	for (size_t f = 0; f < sizeof(fills); f++) {
		for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
			size_t n = tell(make_paths(256, fills[f], lens[l]), false, &truncated);

			assert_in_range(n, 1, 255);
			assert_true(truncated);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_are_told),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
