/* SPDX-License-Identifier: Apache-2.0 */
/* The error value: what is kept, how it is cut, and the table of kinds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

static void test_set(void **state)
{
	struct err err = {0};

	assert_int_equal(err_set(&err, ERR_CONFLICT, -EBUSY, "%s is busy", "it"), -EBUSY);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_int_equal(err.os, -EBUSY);
	assert_string_equal(err.msg, "it is busy");
}

static void test_nobody_cares(void **state)
{
	assert_int_equal(err_set(NULL, ERR_INVALID, -EINVAL, "x"), -EINVAL);
	assert_int_equal(err_set_errno(NULL, -ENOENT, "x"), -ENOENT);
	assert_true(err_wrap(NULL, "x") < 0);
}

static void test_set_errno(void **state)
{
	struct err err = {0};

	assert_int_equal(err_set_errno(&err, -ENOENT, "can't read %s", "f"), -ENOENT);
	assert_int_equal(err.kind, ERR_INTERNAL);
	assert_string_equal(err.msg, "can't read f: No such file or directory");
	err_set_errno(&err, -ENOSPC, "x");
	assert_int_equal(err.kind, ERR_NO_SPACE);
	err_set_errno(&err, -EDQUOT, "x");
	assert_int_equal(err.kind, ERR_NO_SPACE);
}

static void test_wrap(void **state)
{
	struct err err = {0};

	err_set(&err, ERR_NO_SPACE, -ENOSPC, "the disk is full");
	assert_int_equal(err_wrap(&err, "template %s", "base"), -ENOSPC);
	assert_int_equal(err.kind, ERR_NO_SPACE);
	assert_string_equal(err.msg, "template base: the disk is full");
}

/* A message that is too long ends with a whole character, wherever the cut falls. */
static void test_cut(void **state)
{
	char text[sizeof(((struct err *)0)->msg) + 8];
	struct err err = {0};

	for (size_t lead = 0; lead < 4; lead++) {
		memset(text, 'x', lead);
		text[lead] = '\0';
		while (strlen(text) + 3 < sizeof(text))
			strcat(text, "\xE2\x82\xAC");
		err_set(&err, ERR_INVALID, -EINVAL, "%s", text);
		assert_true(str_is_utf8(err.msg, strlen(err.msg)));
		assert_true(strlen(err.msg) > sizeof(err.msg) - 4);
		err_set_errno(&err, -EINVAL, "%s", text);
		assert_true(str_is_utf8(err.msg, strlen(err.msg)));
		err_wrap(&err, "%s", "\xE2\x82\xAC");
		assert_true(str_is_utf8(err.msg, strlen(err.msg)));
		err_wrap(&err, "%s", text);
		assert_true(str_is_utf8(err.msg, strlen(err.msg)));
	}
}

/* The wire codes are stable API: each is there once, and leads back to its kind. */
static void test_kinds(void **state)
{
	for (enum err_kind k = ERR_NONE + 1; k < _ERR_KIND_MAX; k++) {
		assert_int_equal(err_from_code(err_code(k)), k);
		assert_in_range(err_http_status(k), 400, 599);
		assert_in_range(err_cli_exit(k), 1, 125);
	}
	assert_int_equal(err_from_code("no.such"), ERR_INTERNAL);
}

static void test_message(void **state)
{
	struct err err = {.kind = ERR_SANDBOX_NOT_FOUND};

	assert_string_equal(err_msg(&err), "no such sandbox");
	err_set(&err, ERR_SANDBOX_NOT_FOUND, -ENOENT, "no sandbox x");
	assert_string_equal(err_msg(&err), "no sandbox x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_nobody_cares),
		cmocka_unit_test(test_set_errno),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
