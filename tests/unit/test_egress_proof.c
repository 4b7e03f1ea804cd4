/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that libslirp comes by the policy, in a program that is linked as the helper is, and in one that is not: there libslirp calls
 * the C library past it, and that is seen.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "egress/stack.h"

static void test_proof(void **state)
{
	static struct egress_config nothing;
	struct err err = {0};
	int r;

	assert_int_equal(host_calls_start(), 0);
	host_calls_set_config(&nothing);
	r = stack_prove(&err);
#ifdef LINKED_AS_THE_HELPER
	assert_int_equal(r, 0);
#else
	assert_int_equal(r, -EPERM);
	assert_non_null(strstr(err.msg, "libslirp reaches the host past the policy"));
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_proof)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
