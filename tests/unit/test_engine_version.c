/* SPDX-License-Identifier: Apache-2.0 */
/* A program's version line: what is understood, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/program.h"

static void is(const char *text, int number, const char *version)
{
	char got[16] = "";

	assert_int_equal(program_parse_version(text, "QEMU emulator version ", got, sizeof(got)),
		number);
	if (number)
		assert_string_equal(got, version);
}

static void test_understood(void **state)
{
	is("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c)\n", 702,
		"7.2.22");
	is("QEMU emulator version 10.0", 1000, "10.0");
	is("QEMU emulator version 8.2.50 (v8.2.0-1-g123)", 802, "8.2.50");
	is("QEMU emulator version 6.12\n", 612, "6.12");
}

static void test_not_understood(void **state)
{
	static const char *const bad[] = {"", "qemu 7.2", "QEMU emulator version ",
		"QEMU emulator version 7", "QEMU emulator version .2", "QEMU emulator version 7.",
		"QEMU emulator version 7..2", "QEMU emulator version x.y",
		"QEMU emulator version 123.4", "QEMU emulator version 7.123",
		"QEMU emulator version 1234567890.1234567890", "QEMU emulator version 123456789.1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is(bad[i], 0, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_understood),
		cmocka_unit_test(test_not_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
