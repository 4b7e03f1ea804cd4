/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bell: a thread waits for it and for its client to hang up; any other rings it. It is an eventfd: rings before a wait
 * are not lost, and many are as one.
 */
#pragma once

#include <stdint.h>

#include "base/list.h"

/* The descriptor, to be closed, or a negative errno. */
int bell_new(void);

/* Never blocks. */
void bell_ring(int bell);

/*
 * 0: it rang, or the wait ended early (look for what it rings for); -ETIMEDOUT: deadline_ms (clock_mono_ms(), -1 for never)
 * has come; -ECONNRESET: hangup_fd (a socket, or -1) was closed by its peer.
 */
int bell_wait(int bell, int64_t deadline_ms, int hangup_fd);

/* One of those who are told of something: in a list that its owner's lock protects. */
struct follower {
	struct list node;
	int bell; /* owned by who follows */
};

/* Rings for all in the list. */
void followers_ring(struct list *followers);
