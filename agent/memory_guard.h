/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends what would hold a full machine in reclaim for ever.
 *
 * The kernel kills nobody as long as it finds a page to take back. In a group that is full of memory which can't be taken
 * back, these are pages of the code that runs; they come from the disk again at once, and are taken again. Nothing gets
 * done then, for minutes.
 */
#pragma once

#include "loop.h"
#include "reap.h"

/* Of the group, from its files; they only rise. */
struct memory_counts {
	uint64_t hits;     /* how often it was at its limit */
	uint64_t ooms;     /* how often the kernel called it out of memory */
	uint64_t refaults; /* pages of files that came back soon after they were taken */
};

struct memory_guard {
	struct source source; /* of `memory.events`, while all is well */
	struct timer timer;   /* for the next look, while the group is at its limit */
	struct reaper *reaper;
	int dir_fd;                /* borrowed: the group's */
	int events_fd;             /* owned */
	uint64_t limit;            /* of the group, bytes */
	struct memory_counts seen; /* at the last look */
	unsigned int bad_looks;
	struct child squeezer; /* who lowers the limit, while it does */
};

/* Watches a group, in which others are. One without a limit (or dir_fd -1: none) is left alone. */
void memory_guard_init(struct memory_guard *guard, struct loop *loop, struct reaper *reaper,
	int dir_fd);
void memory_guard_done(struct memory_guard *guard);
