/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the test's own: scratch_setup() and scratch_teardown() go around each test that needs one. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"

static inline int scratch_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = fs_join(tmp && tmp[0] ? tmp : "/tmp", "pandastack-test.XXXXXX");

	*state = mkdtemp(dir);
	return *state ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
	int r = fs_remove_tree(*state, NULL);

	free(*state);
	return r;
}

/* Writes a small file into the folder. */
static inline void scratch_write(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	struct err err = {0};

	if (fs_write_atomic(path, text, strlen(text), 0644, &err) < 0)
		fail_msg("%s", err.msg);
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
