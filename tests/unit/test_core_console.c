/* SPDX-License-Identifier: Apache-2.0 */
/* What a console has said: its end is kept, and followers are told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/macros.h"
#include "core/console.h"

static struct console console;

static int setup(void **state)
{
	console_init(&console);
	return 0;
}

static int teardown(void **state)
{
	console_done(&console);
	return 0;
}

static void test_read(void **state)
{
	char data[100];
	uint64_t at = 0;
	bool closed = true;

	assert_int_equal(console_read(&console, &at, data, sizeof(data), &closed), 0);
	assert_false(closed);
	console_push(&console, "one\n", 4);
	console_push(&console, "two\n", 4);
	assert_int_equal(console_read(&console, &at, data, 6, &closed), 6);
	assert_memory_equal(data, "one\ntw", 6);
	assert_int_equal(console_read(&console, &at, data, sizeof(data), &closed), 2);
	assert_memory_equal(data, "o\n", 2);
	console_close(&console);
	assert_int_equal(console_read(&console, &at, data, sizeof(data), &closed), 0);
	assert_true(closed);
}

static void test_bound(void **state)
{
	_cleanup_free_ char *data = xcalloc(1, 3 * CONSOLE_BYTES);
	uint64_t at = 0;
	bool closed;

	for (size_t i = 0; i < 3 * CONSOLE_BYTES; i++)
		data[i] = (char)(i % 251);
	console_push(&console, data, 10);
	console_push(&console, data + 10, 3 * CONSOLE_BYTES - 10);
	assert_int_equal(console_read(&console, &at, data, 3 * CONSOLE_BYTES, &closed),
		CONSOLE_BYTES);
	assert_true(at == 3 * CONSOLE_BYTES);
	for (size_t i = 0; i < CONSOLE_BYTES; i++)
		assert_int_equal(data[i], (char)((2 * CONSOLE_BYTES + i) % 251));
}

static void test_follow(void **state)
{
	struct follower f;

	assert_int_equal(console_follow(&console, &f, NULL), 0);
	assert_int_equal(bell_wait(f.bell, clock_mono_ms() + 1, -1), -ETIMEDOUT);
	console_push(&console, "x", 1);
	assert_int_equal(bell_wait(f.bell, -1, -1), 0);
	console_close(&console);
	assert_int_equal(bell_wait(f.bell, -1, -1), 0);
	console_unfollow(&console, &f);
	console_push(&console, "x", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_follow, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
