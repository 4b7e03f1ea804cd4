/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the guest link: what is encoded is decoded, at every cut, and nothing else passes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/link_frame.h"

enum { BIG = 2 * (LINK_HEADER_BYTES + (64 << 10)) };

static void test_bytes(void **state)
{
	static const uint8_t want[] = {0xA5, 3, 2, 0, 0x04, 0x03, 0x02, 0x01, 5, 0, 1, 0};
	uint8_t header[LINK_HEADER_BYTES];

	link_encode_header(header, LINK_DATA, LINK_CH_STDERR, 0x01020304, 0x10000);
	assert_int_equal(header[8] | header[10] << 16, 0x10000);
	link_encode_header(header, LINK_DATA, LINK_CH_STDERR, 0x01020304, 0xFF05);
	assert_memory_equal(header, want, 8);
	assert_int_equal(link_get_u32(header + 8), 0xFF05);
}

static void test_u32(void **state)
{
	uint8_t bytes[4];

	link_put_u32(bytes, 0xFEDCBA98);
	assert_memory_equal(bytes, "\x98\xBA\xDC\xFE", 4);
	assert_true(link_get_u32(bytes) == 0xFEDCBA98);
}

/* Every type, with padding before it: incomplete at each shorter length, whole at the last. */
static void test_round_trip(void **state)
{
	for (int type = LINK_HELLO; type < _LINK_TYPE_MAX; type++) {
		for (size_t pad = 0; pad < 3; pad++) {
			uint8_t bytes[64] = {0};
			struct link_frame f;
			size_t used, len = pad + LINK_HEADER_BYTES + 5;

			link_encode_header(bytes + pad, (enum link_type)type, 1, 7, 5);
			memcpy(bytes + pad + LINK_HEADER_BYTES, "hello", 5);
			for (size_t cut = 0; cut < len; cut++) {
				assert_int_equal(link_decode(bytes, cut, &f, &used), 0);
				assert_int_equal(used, cut < pad ? cut : pad);
			}
			assert_int_equal(link_decode(bytes, sizeof(bytes), &f, &used), 1);
			assert_int_equal(used, len);
			assert_int_equal(f.type, type);
			assert_int_equal(f.arg, 1);
			assert_int_equal(f.stream, 7);
			assert_int_equal(f.length, 5);
			assert_memory_equal(f.payload, "hello", 5);
		}
	}
}

static void test_largest(void **state)
{
	static uint8_t bytes[BIG];
	struct link_frame f;
	size_t used;

	link_encode_header(bytes, LINK_EVENT, 0, 1, LIMIT_FRAME_BYTES);
	assert_int_equal(link_decode(bytes, LINK_HEADER_BYTES + LIMIT_FRAME_BYTES - 1, &f, &used),
		0);
	assert_int_equal(link_decode(bytes, LINK_HEADER_BYTES + LIMIT_FRAME_BYTES, &f, &used), 1);
	assert_int_equal(f.length, LIMIT_FRAME_BYTES);
}

static void test_only_padding(void **state)
{
	uint8_t zeros[100] = {0};
	struct link_frame f;
	size_t used;

	assert_int_equal(link_decode(zeros, sizeof(zeros), &f, &used), 0);
	assert_int_equal(used, sizeof(zeros));
}

static void refused(size_t at, uint8_t value)
{
	uint8_t bytes[LINK_HEADER_BYTES];
	struct link_frame f;
	size_t used;

	link_encode_header(bytes, LINK_END, 0, 1, 0);
	bytes[at] = value;
	assert_int_equal(link_decode(bytes, sizeof(bytes), &f, &used), -EPROTO);
}

static void test_no_frame(void **state)
{
	struct link_frame f;
	size_t used;

	refused(0, 0xA4);           /* magic */
	refused(1, 0);              /* type */
	refused(1, _LINK_TYPE_MAX); /* type */
	refused(1, 0xFF);           /* type */
	refused(3, 1);              /* reserved */
	refused(10, 2);             /* 128 KiB */
	refused(11, 0x80);          /* 2 GiB */
	assert_int_equal(link_decode((const uint8_t *)"\0x", 2, &f, &used),
		-EPROTO); /* seen at once */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_u32),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_only_padding),
		cmocka_unit_test(test_no_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
