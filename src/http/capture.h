/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a command for a buffered answer: text up to a bound. What is over it is counted and
 * dropped, and the text says so. Zero-initialise with capture_init().
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/utf8_stream.h"

struct capture {
	struct utf8_stream utf8;
	struct buf text;
	size_t max;     /* bytes of text that are kept */
	uint64_t total; /* bytes that arrived */
	bool cut;
};

struct capture capture_init(size_t max);
void capture_done(struct capture *c);

void capture_push(struct capture *c, const void *data, size_t len);

/* Forgets what was captured (clear_output). */
void capture_clear(struct capture *c);

/* The text as a JSON string, with a line about the cut behind it where there was one. Ends it. */
json_t *capture_finish(struct capture *c);
