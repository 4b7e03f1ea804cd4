/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that is kept (output_ring.h), and streams that are told of it: what there is, then what comes.
 *
 * A slow stream stops nobody: it is overtaken, and told {"missed":N} with the number of bytes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "link.h"
#include "output_ring.h"

struct output_log {
	struct output_ring ring;
	struct list readers;
	json_t *end; /* owned; the answer of each stream once it has all; NULL while output comes */
};

void output_log_init(struct output_log *log);
/* No stream reads any more. */
void output_log_done(struct output_log *log);

void output_log_push(struct output_log *log, uint8_t channel, const void *data, size_t len);

/* No more output: the streams end with this answer; the reference is taken. */
void output_log_end(struct output_log *log, json_t *answer);

/* Owns the stream. It is sent what there is, then an event {"live":true}, then what comes; without `follow` it ends in place
 * of the event, with `end` or {}. */
void output_log_attach(struct output_log *log, struct stream *s, bool follow);

static inline bool output_log_has_readers(const struct output_log *log)
{
	return !list_empty(&log->readers);
}
