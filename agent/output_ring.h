/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last of some output: pieces of stdout and stderr in the order in which they came, within OUTPUT_RING_BYTES.
 *
 * Any number of readers go through it, each at its own pace; one that is overtaken is told how much it has missed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { OUTPUT_RING_BYTES = 256 * 1024 };

/* Zeroed, it is empty. */
struct output_ring {
	uint8_t *data;       /* owned; NULL until there is something */
	uint64_t begin, end; /* of the records that are there */
	uint64_t last;       /* where the last of them begins */
	uint64_t gone;       /* bytes of output that are not there any more */
	uint64_t total;      /* and all that there ever were */
};

/* Zeroed, it stands at the beginning. */
struct output_cursor {
	uint64_t at;   /* a record */
	size_t done;   /* bytes of it that were read */
	uint64_t seen; /* bytes of output that were read or missed */
};

void output_ring_done(struct output_ring *ring);

void output_ring_push(struct output_ring *ring, uint8_t channel, const void *data, size_t len);

/*
 * The next piece, at most `max` bytes (over 0), valid until the next push; 0 when all was read. *ret_missed is set to the number of
 * bytes that were lost before it, 0 as a rule.
 */
size_t output_ring_read(const struct output_ring *ring, struct output_cursor *cursor, size_t max,
	uint8_t *ret_channel, const uint8_t **ret_data, uint64_t *ret_missed);
