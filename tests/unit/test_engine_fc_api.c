/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of Firecracker: what is understood, and what is not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/fc_api.h"

static const char refused[] =
	"HTTP/1.1 400 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
	"Content-Type: application/json\r\nContent-Length: 26\r\n\r\n"
	"{\"fault_message\": \"no it\"}";
static const char done[] =
	"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n";

static void test_understood(void **state)
{
	struct fc_answer a;

	assert_int_equal(fc_api_parse(done, strlen(done), &a), 1);
	assert_int_equal(a.status, 204);
	assert_null(a.json);
	assert_int_equal(fc_api_parse(refused, strlen(refused), &a), 1);
	assert_int_equal(a.status, 400);
	assert_string_equal(json_string_value(json_object_get(a.json, "fault_message")), "no it");
	fc_answer_done(&a);
}

/* However it is cut, it is not taken for a whole one. */
static void test_unfinished(void **state)
{
	struct fc_answer a;

	for (size_t n = 0; n < strlen(refused); n++)
		assert_int_equal(fc_api_parse(refused, n, &a), 0);
}

static void test_not_understood(void **state)
{
	static const char *const bad[] = {"SSH-2.0-x\r\n", "HTTP/1.1 abc\r\n\r\n",
		"HTTP/1.1 200 \r\nContent-Length: x\r\n\r\n"};
	struct fc_answer a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fc_api_parse(bad[i], strlen(bad[i]), &a), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_understood),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_not_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
