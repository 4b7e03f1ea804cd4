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

struct memory_guard {
	struct source source; /* of `memory.events`, while all is well */
	struct timer timer;   /* for the next look, while the group is at its limit */
	int dir_fd;           /* borrowed: the group's */
	int events_fd;        /* owned */
	uint64_t limit;       /* of the group, bytes */
	uint64_t hits,
		ooms; /* how often it was at its limit, and out of memory, as of the last look */
	unsigned int bad_looks;
};

/* Watches a group, in which others are. One without a limit (or dir_fd -1: none) is left alone. */
void memory_guard_init(struct memory_guard *guard, struct loop *loop, int dir_fd);
void memory_guard_done(struct memory_guard *guard);
