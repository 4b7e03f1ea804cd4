/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections on which nobody has shown yet, or again, that he may ask for anything. They are all that someone without a
 * key can hold, silent or byte by byte: when there is room for only a few connections more, each new one ends the one that
 * has waited longest. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

#include "base/list.h"

struct waiting {
	pthread_mutex_t lock; /* protects all below */
	struct list oldest;   /* first */
	size_t open, max;     /* connections of any kind; with more than these some are ended */
};

/* A connection. */
struct waiting_one {
	struct list node; /* empty while it does not wait */
	int fd;           /* borrowed */
};

void waiting_init(struct waiting *w, size_t max);
void waiting_done(struct waiting *w);

/* It was accepted, and waits; to be handed to waiting_leave() before the descriptor is closed. */
struct waiting_one *waiting_enter(struct waiting *w, int fd);
struct waiting_one *waiting_leave(struct waiting *w, struct waiting_one *one);

/* A request of it was admitted, and was answered. */
void waiting_admit(struct waiting *w, struct waiting_one *one);
void waiting_again(struct waiting *w, struct waiting_one *one);
