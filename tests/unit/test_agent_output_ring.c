/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of output: what comes out is what went in, in order and in channels, or is told as missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "output_ring.h"

/* Byte number i of all that is ever pushed; its channel follows from the piece that it is in. */
static uint8_t pattern(uint64_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) + (i >> 16));
}

static void push(struct output_ring *ring, uint8_t channel, size_t len)
{
	_cleanup_free_ uint8_t *data = xcalloc(1, len + 1);

	for (size_t i = 0; i < len; i++)
		data[i] = pattern(ring->total + i);
	output_ring_push(ring, channel, data, len);
}

/* Reads a piece and checks its bytes. Returns its length. */
static size_t read_piece(const struct output_ring *ring, struct output_cursor *cursor, size_t max,
	uint8_t *ret_channel, uint64_t *ret_missed)
{
	const uint8_t *data;
	size_t n = output_ring_read(ring, cursor, max, ret_channel, &data, ret_missed);

	assert_true(n <= max);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(data[i], pattern(cursor->seen - n + i));
	return n;
}

/* Reads to the end; the bytes of each channel. Nothing is missed. */
static void read_all(const struct output_ring *ring, struct output_cursor *cursor, size_t max,
	size_t got[3])
{
	uint64_t missed;
	uint8_t channel;
	size_t n;

	memset(got, 0, 3 * sizeof(got[0]));
	while ((n = read_piece(ring, cursor, max, &channel, &missed)) > 0) {
		assert_true(missed == 0);
		got[channel] += n;
	}
	assert_true(missed == 0);
	assert_true(cursor->seen == ring->total);
}

static void test_empty(void **state)
{
	struct output_ring ring = {0};
	struct output_cursor cursor = {0};
	size_t got[3];

	read_all(&ring, &cursor, 10, got);
	push(&ring, 1, 0);
	read_all(&ring, &cursor, 10, got);
	output_ring_done(&ring);
}

static void test_order(void **state)
{
	struct output_ring ring = {0};
	struct output_cursor cursor = {0};
	uint64_t missed;
	uint8_t channel;

	push(&ring, 1, 3);
	push(&ring, 2, 4);
	push(&ring, 2, 1);
	push(&ring, 1, 2);
	assert_int_equal(read_piece(&ring, &cursor, 100, &channel, &missed), 3);
	assert_int_equal(channel, 1);
	assert_int_equal(read_piece(&ring, &cursor, 2, &channel, &missed), 2);
	assert_int_equal(read_piece(&ring, &cursor, 100, &channel, &missed), 3);
	assert_int_equal(channel, 2);
	assert_int_equal(read_piece(&ring, &cursor, 100, &channel, &missed), 2);
	assert_int_equal(channel, 1);
	assert_int_equal(read_piece(&ring, &cursor, 100, &channel, &missed), 0);
	push(&ring, 1, 5); /* makes the record longer that was read to its end */
	assert_int_equal(read_piece(&ring, &cursor, 100, &channel, &missed), 5);
	assert_int_equal(channel, 1);
	output_ring_done(&ring);
}

/* Crumbs of one channel cost no more than their bytes. */
static void test_crumbs(void **state)
{
	struct output_ring ring = {0};
	struct output_cursor cursor = {0};
	size_t got[3];

	for (int i = 0; i < 200000; i++)
		push(&ring, 1, 1);
	read_all(&ring, &cursor, 1000, got);
	assert_int_equal(got[1], 200000);
	output_ring_done(&ring);
}

static void test_overtaken(void **state)
{
	struct output_ring ring = {0};
	struct output_cursor first = {0}, second = {0};
	uint64_t missed;
	uint8_t channel;
	size_t got[3], n;

	push(&ring, 1, 1000);
	n = read_piece(&ring, &first, 100, &channel, &missed);
	assert_int_equal(n, 100);
	push(&ring, 2, 3 * OUTPUT_RING_BYTES);
	n = read_piece(&ring, &first, 100, &channel, &missed);
	assert_int_equal(n, 100);
	assert_int_equal(channel, 2);
	assert_true(missed == ring.gone - 100);
	assert_true(ring.gone > 2 * OUTPUT_RING_BYTES);
	assert_true(ring.total - ring.gone > OUTPUT_RING_BYTES * 9 / 10);
	read_all(&ring, &first, 1 << 20, got);
	assert_int_equal(got[2], ring.total - ring.gone - 100);
	assert_true(read_piece(&ring, &second, 1 << 20, &channel, &missed) > 0);
	assert_true(missed == ring.gone);
	output_ring_done(&ring);
}

/* Random pieces, readers at random paces: each byte is right, or missed. */
static void test_random(void **state)
{
	struct output_ring ring = {0};
	struct output_cursor cursors[3] = {0};
	uint64_t sums[3] = {0};

	srandom(1);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)random() % (i % 100 == 0 ? 70000 : 300);

		push(&ring, random() % 2 ? 1 : 2, len);
		assert_true(ring.end - ring.begin <= OUTPUT_RING_BYTES);
		for (size_t c = 0; c < ARRAY_SIZE(cursors); c++) {
			uint64_t missed;
			uint8_t channel = 0;
			size_t n;

			if ((size_t)random() % (1 + 40 * c) != 0)
				continue;
			n = read_piece(&ring, &cursors[c], 1 + (size_t)random() % 5000, &channel,
				&missed);
			assert_true(n == 0 || channel == 1 || channel == 2);
			sums[c] += n + missed;
			assert_true(sums[c] == cursors[c].seen);
		}
	}
	output_ring_done(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_crumbs),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
