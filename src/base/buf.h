/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte buffer that grows up to a bound that its owner sets.
 *
 * buf_init() → buf_append()… → buf_done(). `data` is NUL-terminated behind `len`, so that text can
 * be read as a string. Not for sharing between threads.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

struct buf {
	char *data; /* owned; NULL while nothing was appended */
	size_t len;
	size_t cap;
	size_t max; /* `len` never exceeds this */
};

static inline struct buf buf_init(size_t max)
{
	return (struct buf){.max = max};
}

void buf_done(struct buf *b);
#define _cleanup_buf_ CLEANUP(buf_done)

/* All of it or nothing: 0, -EMSGSIZE when `max` would be exceeded, -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t len);

/* The same for who hands text out in pieces, as json_dump_callback() does: `user` is the buffer. */
int buf_sink(const char *text, size_t len, void *user);

/* Formats behind what is there; the same errors. */
int buf_appendf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Makes room for `extra` more bytes (for reading straight into it); the same errors. */
int buf_reserve(struct buf *b, size_t extra);

/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);

static inline void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

/* Hands the data over (NUL-terminated, to be freed); never NULL unless out of memory. */
char *buf_steal(struct buf *b);
