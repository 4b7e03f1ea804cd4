/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output in lines: bytes that come in pieces become text (http/utf8_stream.h), a line at a time, each with its newline. One that
 * is longer than LINES_BYTES_MAX comes in several parts, of which the last has it.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "http/utf8_stream.h"

enum { LINES_BYTES_MAX = 16 << 10 };

struct lines {
	struct utf8_stream utf8;
	struct buf text; /* of a line that is not whole */
};

/* Takes a line; anything but 0 ends the call and is returned. */
typedef int lines_fn(const char *line, size_t len, void *user);

struct lines lines_init(void);
void lines_done(struct lines *l);

/* 0, -ENOMEM, or what fn returned. */
int lines_push(struct lines *l, const void *data, size_t len, lines_fn *fn, void *user);

/* No more bytes: what there is of a last line. The same. */
int lines_end(struct lines *l, lines_fn *fn, void *user);

/* Where the last `n` lines of a text begin. */
size_t lines_tail(const char *text, size_t len, uint64_t n);

/* How long the first line of a text is, or the first part of it. */
size_t lines_first(const char *text, size_t len);
