/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened to a sandbox: its last events, in memory and in a file that the next daemon reads.
 *
 * Any thread may call, with any lock held: the log's own is a leaf, and only a page of a file is written under it, never
 * waited for a disk. An event's time is its name: no two of a log have the same, so a reader goes on behind the last that
 * it has seen.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bell.h"
#include "base/err.h"

enum { EVENT_LOG_EVENTS_MAX = 256 }; /* that are kept */

struct event_log;

/* The log whose file is `events` in that folder, which need not be there yet; what an earlier daemon wrote is read. */
struct event_log *event_log_new(const char *dir);
struct event_log *event_log_free(struct event_log *log);

/* Adds an event; takes the payload's reference (an object, or NULL for an empty one). What can't be written to the file is
 * still there for readers. */
void event_log_add(struct event_log *log, const char *type, json_t *payload);

/* Nothing will be added any more. */
void event_log_close(struct event_log *log);

/*
 * The last `tail` of those after that time (clock_real_ms(), -1: all), oldest first: an array of {"time_ms","type","payload"}
 * which is the caller's. *ret_closed (may be NULL): nothing comes after these.
 */
json_t *event_log_read(struct event_log *log, int64_t after_ms, size_t tail, bool *ret_closed);

/* From here on the bell of *f rings for each event and for the close. */
int event_log_follow(struct event_log *log, struct follower *f, struct err *err);
void event_log_unfollow(struct event_log *log, struct follower *f);
