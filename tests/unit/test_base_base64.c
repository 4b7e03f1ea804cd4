/* SPDX-License-Identifier: Apache-2.0 */
/* Base64: the vectors of RFC 4648, section 10, and that only the canonical text is accepted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"

static void test_vectors(void **state)
{
	static const char *const vectors[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}, {"\xFB\xFF\xBF", "+/+/"}};
	char text[32], back[32];
	size_t len;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const char *plain = vectors[i][0], *coded = vectors[i][1];

		base64_encode(text, plain, strlen(plain));
		assert_string_equal(text, coded);
		assert_int_equal(BASE64_LENGTH(strlen(plain)), strlen(coded));
		assert_int_equal(base64_decode(coded, strlen(coded), back, sizeof(back), &len), 0);
		assert_int_equal(len, strlen(plain));
		assert_memory_equal(back, plain, len);
	}
}

static void test_refused(void **state)
{
	static const char *const bad[] = {"Z", "Zg",
		"Zg=", "Zg===", "====", "Z===", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm9-", "=m9v",
		"Zg==Zg==", "Zm\xC3\xA4v"};
	char back[32];
	size_t len = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), back, sizeof(back), &len),
			-EINVAL);
	assert_int_equal(len, 77);
}

static void test_too_small(void **state)
{
	char back[3];
	size_t len;

	assert_int_equal(base64_decode("Zm9v", 4, back, 3, &len), 0);
	assert_int_equal(base64_decode("Zm9v", 4, back, 2, &len), -EMSGSIZE);
	assert_int_equal(base64_decode("Zg==", 4, back, 1, &len), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
