/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between the agent and the Python runtime. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_frame.h"

static void test_there_and_back(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(100);
	struct kernel_frame f;
	json_t *json = json_pack("{si}", "pid", 7);
	size_t used;

	assert_int_equal(kernel_frame_append_json(&b, KERNEL_HELLO, json), 0);
	assert_int_equal(b.len, 5 + 9);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(kernel_frame_decode((uint8_t *)b.data, len, &f, &used), 0);
	assert_int_equal(kernel_frame_decode((uint8_t *)b.data, b.len, &f, &used), 1);
	assert_int_equal(used, b.len);
	assert_int_equal(f.type, 'k');
	assert_int_equal(f.length, 9);
	assert_memory_equal(f.payload, "{\"pid\":7}", 9);
	json_decref(json);
}

static void test_a_length_from_outside(void **state)
{
	static const uint8_t huge[] = {0xFF, 0xFF, 0xFF, 0xFF, 'm', 1, 2, 3};
	struct kernel_frame f = kernel_frame_header(huge);
	size_t used;

	assert_int_equal(f.length, UINT32_MAX);
	assert_int_equal(f.type, 'm');
	assert_int_equal(kernel_frame_decode(huge, sizeof(huge), &f, &used), 0);
}

static void test_all_or_nothing(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(10);
	json_t *json = json_pack("{ss}", "code", "too long for that");

	assert_int_equal(kernel_frame_append_json(&b, KERNEL_RUN, json), -EMSGSIZE);
	assert_int_equal(b.len, 0);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_a_length_from_outside),
		cmocka_unit_test(test_all_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
