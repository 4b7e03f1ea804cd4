/* SPDX-License-Identifier: Apache-2.0 */
/* The lifecycle: every pair of states, against the table as it stands in the header. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/sandbox_state.h"

static void test_whole_table(void **state)
{
	/* Who may follow whom. */
	static const bool may[_SANDBOX_STATE_MAX][_SANDBOX_STATE_MAX] = {
		[SANDBOX_CREATING] = {[SANDBOX_RUNNING] = true,
			[SANDBOX_PAUSED] = true,
			[SANDBOX_HIBERNATED] = true,
			[SANDBOX_FAILED] = true,
			[SANDBOX_STOPPING] = true},
		[SANDBOX_RUNNING] = {[SANDBOX_PAUSED] = true,
			[SANDBOX_HIBERNATING] = true,
			[SANDBOX_FAILED] = true,
			[SANDBOX_STOPPING] = true},
		[SANDBOX_PAUSED] = {[SANDBOX_RUNNING] = true,
			[SANDBOX_HIBERNATING] = true,
			[SANDBOX_FAILED] = true,
			[SANDBOX_STOPPING] = true},
		[SANDBOX_HIBERNATING] = {[SANDBOX_RUNNING] = true,
			[SANDBOX_PAUSED] = true,
			[SANDBOX_HIBERNATED] = true,
			[SANDBOX_FAILED] = true},
		[SANDBOX_HIBERNATED] = {[SANDBOX_WAKING] = true, [SANDBOX_STOPPING] = true},
		[SANDBOX_WAKING] = {[SANDBOX_RUNNING] = true, [SANDBOX_HIBERNATED] = true},
		[SANDBOX_FAILED] = {[SANDBOX_STOPPING] = true},
		[SANDBOX_STOPPING] = {[SANDBOX_DELETED] = true},
	};

	for (int from = 0; from < _SANDBOX_STATE_MAX; from++) {
		for (int to = 0; to < _SANDBOX_STATE_MAX; to++)
			assert_int_equal(sandbox_state_may((enum sandbox_state)from,
						 (enum sandbox_state)to),
				may[from][to]);
	}
}

/* The words are on the wire. */
static void test_names(void **state)
{
	static const char *const names[] = {"creating", "running", "paused", "hibernating",
		"hibernated", "waking", "failed", "stopping", "deleted"};
	enum sandbox_state s = SANDBOX_DELETED;

	for (int i = 0; i < _SANDBOX_STATE_MAX; i++) {
		assert_string_equal(sandbox_state_name((enum sandbox_state)i), names[i]);
		assert_int_equal(sandbox_state_from_name(names[i], &s), 0);
		assert_int_equal(s, i);
	}
	assert_int_equal(sandbox_state_from_name("", &s), -EINVAL);
	assert_int_equal(sandbox_state_from_name("Running", &s), -EINVAL);
	assert_int_equal(s, SANDBOX_DELETED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_table),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
