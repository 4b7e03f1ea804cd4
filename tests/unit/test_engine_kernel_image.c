/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, and files that are none. */
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

enum { PAYLOAD_AT = 0x250 };

/* A bzImage whose payload is one LZ4 block: a size that is wrong makes a wrong one. */
static size_t make_image(uint8_t image[4096], const char *block, size_t len, uint32_t size)
{
	const uint32_t at = PAYLOAD_AT - 512, payload_len = (uint32_t)len + 8;

	memset(image, 0, 4096);
	memcpy(image + 0x202, "HdrS", 4);
	memcpy(image + 0x248, &at, sizeof(at));
	memcpy(image + 0x24c, &payload_len, sizeof(payload_len));
	memcpy(image + PAYLOAD_AT, "\x02\x21\x4c\x18", 4);
	memcpy(image + PAYLOAD_AT + 4, &size, sizeof(size));
	memcpy(image + PAYLOAD_AT + 8, block, len);
	return PAYLOAD_AT + payload_len;
}

static void test_kernels(void **state)
{
	/* Four literals and a match of eight bytes that overlaps them; five literals end a block. */
	static const char block[] = "\x44\x7f"
				    "ELF\x04\x00\x50"
				    "12345";
	uint8_t image[4096], elf[64];
	size_t len = make_image(image, block, sizeof(block) - 1, sizeof(block) - 1);

	assert_int_equal(kernel_image_unpack(image, len, elf, sizeof(elf)), 17);
	assert_memory_equal(elf,
		"\x7f"
		"ELF\x7f"
		"ELF\x7f"
		"ELF12345",
		17);
	assert_int_equal(kernel_image_unpack(image, len, elf, 16), -EPROTO);
}

static void test_no_kernels(void **state)
{
	static const struct {
		const char *block;
		size_t len;
	} blocks[] = {
		{"\x50\x7f"
		 "ELF",
			5},              /* literals beyond the end */
		{"\x10\x7f\x02\x00", 4}, /* back beyond the beginning */
		{"\x40"
		 "abcd",
			5}, /* no ELF */
	};
	uint8_t image[4096], elf[64];
	size_t len;

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		len = make_image(image, blocks[i].block, blocks[i].len, (uint32_t)blocks[i].len);
		assert_int_equal(kernel_image_unpack(image, len, elf, sizeof(elf)), -EPROTO);
	}
	len = make_image(image,
		"\x40\x7f"
		"ELF",
		6, 999);
	assert_int_equal(kernel_image_unpack(image, len, elf, sizeof(elf)), -EPROTO);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(kernel_image_unpack(image, n, elf, sizeof(elf)), -EPROTO);
	memset(image + 0x248, 0xff, 8); /* the payload lies nowhere */
	assert_int_equal(kernel_image_unpack(image, sizeof(image), elf, sizeof(elf)), -EPROTO);
}

static void test_no_file(void **state)
{
	char path[] = "/tmp/kernel-image-XXXXXX";
	int fd = mkstemp(path);
	struct err err;

	assert_true(fd >= 0);
	assert_int_equal(kernel_image_extract(path, "/nonexistent/elf", &err), -EPROTO);
	assert_non_null(strstr(err_msg(&err), "no Linux that this engine can start"));
	(void)close(fd);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_no_kernels),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
