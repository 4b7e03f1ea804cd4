/* SPDX-License-Identifier: Apache-2.0 */
/* LZ4 blocks, good and bad; and files that are no kernel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/kernel_image.h"

#define DECODE(block, dst) lz4_block_decode(block, sizeof(block) - 1, dst, sizeof(dst))

static void test_blocks(void **state)
{
	char got[64];

	assert_int_equal(DECODE("\x30"
				"abc",
				 got),
		3);
	assert_memory_equal(got, "abc", 3);
	/* A match that overlaps what it makes: "ab" again and again. */
	assert_int_equal(DECODE("\x24"
				"ab\x02\x00\x10"
				"c",
				 got),
		11);
	assert_memory_equal(got,
		"ababababab"
		"c",
		11);
	/* Lengths that go on in a byte: 15 + 3 literals, a match of 15 + 4 + 2. */
	assert_int_equal(DECODE("\xff\x03"
				"123456789012345678"
				"\x12\x00\x02\x00",
				 got),
		39);
	assert_memory_equal(got,
		"123456789012345678"
		"123456789012345678"
		"123",
		39);
	assert_int_equal(lz4_block_decode("", 0, got, sizeof(got)), 0);
}

static void test_bad_blocks(void **state)
{
	char got[8];

	assert_int_equal(DECODE("\x50"
				"abc",
				 got),
		-EPROTO); /* literals beyond the end */
	assert_int_equal(DECODE("\x90"
				"123456789",
				 got),
		-EPROTO); /* more than fits */
	assert_int_equal(DECODE("\x10"
				"a\x02\x00",
				 got),
		-EPROTO); /* back beyond the beginning */
	assert_int_equal(DECODE("\x10"
				"a\x00\x00",
				 got),
		-EPROTO); /* back by nothing */
	assert_int_equal(DECODE("\x10"
				"a\x01",
				 got),
		-EPROTO); /* half an offset */
	assert_int_equal(DECODE("\x1f"
				"a\x01\x00\xff",
				 got),
		-EPROTO); /* a length without end */
	assert_int_equal(DECODE("\x1f"
				"a\x01\x00\x40",
				 got),
		-EPROTO); /* a match that does not fit */
}

static void test_no_kernel(void **state)
{
	char path[] = "/tmp/kernel-image-XXXXXX", data[4096] = "MZ";
	int fd = mkstemp(path);
	struct err err;

	assert_true(fd >= 0);
	assert_int_equal(kernel_image_extract(path, "/nonexistent/elf", &err), -EPROTO);
	memcpy(data + 0x202, "HdrS", 4);
	memset(data + 0x248, 0xff, 8); /* the payload lies nowhere */
	assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	assert_int_equal(kernel_image_extract(path, "/nonexistent/elf", &err), -EPROTO);
	assert_non_null(strstr(err_msg(&err), "no Linux that this engine can start"));
	(void)close(fd);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_bad_blocks),
		cmocka_unit_test(test_no_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
