/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that arrive in pieces to valid UTF-8: a character may be cut between two pieces, and what
 * is no UTF-8 becomes U+FFFD, one for each maximal ill-formed sequence (Unicode, section 3.9; the
 * same as Python's errors="replace"). Pure; zero-initialise the state.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct utf8_stream {
	uint8_t held[4]; /* beginning of a character whose end has not arrived */
	uint8_t n_held;
	uint8_t missing; /* bytes that the character still lacks; 0: between characters */
	uint8_t lo, hi;  /* what the next byte must lie in */
};

/* At most this many bytes of text come from `len` bytes, utf8_stream_end() included. */
#define UTF8_STREAM_MAX(len) (3 * ((len) + 1))

/* Appends the text of the next bytes; buf_append()'s errors. */
int utf8_stream_push(struct utf8_stream *u, const void *data, size_t len, struct buf *dst);

/* No more bytes: a character that was cut becomes U+FFFD. */
int utf8_stream_end(struct utf8_stream *u, struct buf *dst);
