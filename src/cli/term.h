/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal: whether there is one, colours, and progress on stderr. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* True where `fd` is a terminal that may be coloured: NO_COLOR unset or empty, TERM not "dumb". */
bool term_has_colour(int fd);

/*
 * A line on stderr, on a terminal only, for what takes longer than two seconds:
 * progress_init() → progress_update()… → progress_end(), which takes the line away.
 */
struct progress {
	const char *label; /* borrowed */
	int64_t started_ms;
	int64_t shown_ms; /* 0: not yet */
};

struct progress progress_init(const char *label);

/* Bytes so far and in all; 0 where unknown. Cheap enough for every network event. */
void progress_update(struct progress *p, uint64_t done, uint64_t total);

void progress_end(struct progress *p);

/* "pandastack: <message>" on stderr. What came from a server must have been cleaned (text.h). */
void term_say(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* All of it or a negative errno: -EPIPE when nobody reads on. */
int term_write(int fd, const char *data, size_t len, struct err *err);
