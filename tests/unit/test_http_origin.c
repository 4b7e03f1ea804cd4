/* SPDX-License-Identifier: Apache-2.0 */
/* Names that this machine has for itself. */
#include <string.h>

#include "http/origin.h"
#include "scratch.h"

static void test_names(void **state)
{
	static const char *const ours[] = {"localhost", "LOCALHOST:8080", "127.0.0.1",
		"127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:80"};
	static const char *const others[] = {"", "localhost.evil.example", "evil.example:80",
		"127.0.0.1.evil.example", "128.0.0.1", "::1", "[::1", "[::2]", "[::1]x", "[]",
		"localhost:", "localhost:80x", "localhost/", "localhost:80@evil.example", "0x7f.1",
		"127.1"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		if (!origin_is_loopback(ours[i]))
			fail_msg("refused: %s", ours[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (origin_is_loopback(others[i]))
			fail_msg("taken: %s", others[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
