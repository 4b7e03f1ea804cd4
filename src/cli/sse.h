/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events: bytes in, whole events out (WHATWG HTML, section 9.2.6). No I/O.
 *
 * sse_init() → sse_feed()… → sse_done(). What is left unfinished at the end of the stream is
 * dropped, as the specification wants it. `id` and `retry` are of no use here and skipped.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum { SSE_NAME_SIZE = 32 };

struct sse_event {
	const char *name; /* "message" where the server gave none */
	const char *data; /* NUL-terminated; lines joined by '\n' */
	size_t len;
};

/* Returns 0, or a negative errno that ends sse_feed(). */
typedef int sse_event_fn(const struct sse_event *event, void *user);

struct sse {
	struct buf line;          /* the beginning of a line */
	struct buf data;          /* data lines of the event so far, each with a '\n' behind it */
	char name[SSE_NAME_SIZE]; /* longer ones are cut */
	bool after_cr;            /* a '\n' that comes next belongs to the line before it */
	bool started;             /* past the place where a byte order mark may stand */
};

/* `max` bounds a line, and an event's data. */
struct sse sse_init(size_t max);

/* 0; -EMSGSIZE or -ENOMEM; or what fn returned. After a failure only sse_done() may follow. */
int sse_feed(struct sse *sse, const char *bytes, size_t len, sse_event_fn *fn, void *user);

void sse_done(struct sse *sse);
#define _cleanup_sse_ CLEANUP(sse_done)
