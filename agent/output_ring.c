/* SPDX-License-Identifier: Apache-2.0 */
/* The last of some output, in a ring of records. */
/*
 * Theory of operation
 *
 * A record is a byte of channel, two of length, and so many of output. Output that follows on the same channel makes the last
 * record longer, so that crumbs cost little. Positions count bytes of records since the beginning and only grow; a byte lies at
 * its position modulo the size. Room is made by whole records from the front.
 */
#include "output_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

enum {
	HEADER_BYTES = 3,
	RECORD_BYTES_MAX = 4096, /* of output: what is lost at once when room is made */
};

void output_ring_done(struct output_ring *ring)
{
	free(ring->data);
	*ring = (struct output_ring){0};
}

/* ---- bytes at a position ---- */

static size_t until_wrap(uint64_t at, size_t len)
{
	return MIN(len, (size_t)(OUTPUT_RING_BYTES - at % OUTPUT_RING_BYTES));
}

static void put(struct output_ring *ring, uint64_t at, const void *data, size_t len)
{
	size_t n = until_wrap(at, len);

	memcpy(ring->data + at % OUTPUT_RING_BYTES, data, n);
	memcpy(ring->data, (const uint8_t *)data + n, len - n);
}

static uint8_t byte(const struct output_ring *ring, uint64_t at)
{
	return ring->data[at % OUTPUT_RING_BYTES];
}

static size_t record_len(const struct output_ring *ring, uint64_t at)
{
	return (size_t)byte(ring, at + 1) << 8 | byte(ring, at + 2);
}

static void put_header(struct output_ring *ring, uint64_t at, uint8_t channel, size_t len)
{
	const uint8_t header[HEADER_BYTES] = {channel, (uint8_t)(len >> 8), (uint8_t)len};

	put(ring, at, header, sizeof(header));
}

/* ---- writing ---- */

static void make_room(struct output_ring *ring, size_t len)
{
	while (ring->end + len - ring->begin > OUTPUT_RING_BYTES) {
		size_t n = record_len(ring, ring->begin);

		ring->gone += n;
		ring->begin += HEADER_BYTES + n;
	}
}

/* Makes the last record longer, if it is of that channel and not full. Returns the bytes that it has taken. */
static size_t extend_last(struct output_ring *ring, uint8_t channel, const void *data, size_t len)
{
	size_t had, n;

	if (ring->end == ring->begin || byte(ring, ring->last) != channel)
		return 0;
	had = record_len(ring, ring->last);
	n = MIN(len, RECORD_BYTES_MAX - had);
	make_room(ring, n); /* the last is not the first then */
	put(ring, ring->end, data, n);
	put_header(ring, ring->last, channel, had + n);
	ring->end += n;
	return n;
}

static size_t add_record(struct output_ring *ring, uint8_t channel, const void *data, size_t len)
{
	size_t n = MIN(len, (size_t)RECORD_BYTES_MAX);

	make_room(ring, HEADER_BYTES + n);
	put_header(ring, ring->end, channel, n);
	put(ring, ring->end + HEADER_BYTES, data, n);
	ring->last = ring->end;
	ring->end += HEADER_BYTES + n;
	return n;
}

void output_ring_push(struct output_ring *ring, uint8_t channel, const void *data, size_t len)
{
	size_t taken = 0;

	if (!ring->data)
		ring->data = xcalloc(1, OUTPUT_RING_BYTES); /* pages that are not used cost none */
	ring->total += len;
	while (taken < len) {
		const uint8_t *rest = (const uint8_t *)data + taken;
		size_t n = extend_last(ring, channel, rest, len - taken);

		taken += n > 0 ? n : add_record(ring, channel, rest, len - taken);
	}
}

/* ---- reading ---- */

size_t output_ring_read(const struct output_ring *ring, struct output_cursor *cursor, size_t max,
	uint8_t *ret_channel, const uint8_t **ret_data, uint64_t *ret_missed)
{
	uint64_t from;
	size_t n;

	*ret_missed = 0;
	if (cursor->at < ring->begin) {
		*ret_missed = ring->gone - cursor->seen;
		*cursor = (struct output_cursor){.at = ring->begin, .seen = ring->gone};
	}
	if (cursor->seen == ring->total)
		return 0;
	/* The last record may have become longer since: so a cursor leaves it only for the next. */
	if (cursor->done == record_len(ring, cursor->at)) {
		cursor->at += HEADER_BYTES + cursor->done;
		cursor->done = 0;
	}
	from = cursor->at + HEADER_BYTES + cursor->done;
	n = until_wrap(from, MIN(max, record_len(ring, cursor->at) - cursor->done));
	*ret_channel = byte(ring, cursor->at);
	*ret_data = ring->data + from % OUTPUT_RING_BYTES;
	cursor->done += n;
	cursor->seen += n;
	return n;
}
