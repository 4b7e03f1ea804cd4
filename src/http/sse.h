/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events (WHATWG HTML, section 9.2) on their way to a client: made one by one, sent as the library asks.
 *
 * Events are "event: NAME\ndata: JSON\n\n", pure ASCII (a published client reads Latin-1), LF only.
 * A comment goes out when nothing else did for a while, for clients give up after 30 s to 300 s of
 * silence.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define SSE_TYPE "text/event-stream; charset=utf-8"

enum { SSE_PING_MS = 15000 };

struct sse {
	struct buf out; /* not sent yet */
	size_t sent;    /* bytes of `out` that are sent all the same */
};

static inline struct sse sse_init(size_t max)
{
	return (struct sse){.out = buf_init(max)};
}

static inline void sse_done(struct sse *s)
{
	buf_done(&s->out);
}

/* Everything was sent. */
static inline bool sse_empty(const struct sse *s)
{
	return s->sent == s->out.len;
}

/* Adds an event; takes the reference (NULL: out of memory). -EMSGSIZE (ERR_TOO_LARGE), and nothing was added. */
int sse_emit(struct sse *s, const char *event, json_t *data, struct err *err);

/* Adds a comment. */
int sse_ping(struct sse *s);

/* Moves up to `max` bytes to dst. Memory of a large event is given back once it is sent. */
size_t sse_take(struct sse *s, char *dst, size_t max);
