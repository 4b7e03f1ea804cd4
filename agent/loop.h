/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's event loop: descriptors and one-shot timers, one thread.
 *
 * Sources and timers are embedded in the objects that own them; a callback finds its object with
 * container_of(). A callback may remove (and free) any source or timer, its own included: events
 * already fetched for a removed source are dropped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

enum { LOOP_BATCH = 32 };

struct loop {
	int epoll_fd;
	struct list timers;
	struct epoll_event batch[LOOP_BATCH];
	int batch_len; /* events of the batch under way; 0 outside loop_poll() */
};

struct source {
	struct loop *loop; /* NULL while not attached: a zeroed source is a valid one */
	int fd;            /* borrowed from the owner */
	uint32_t events;
	void (*on_event)(struct source *src, uint32_t revents);
};

struct timer {
	struct list node;
	int64_t deadline_ms; /* monotonic */
	void (*on_timer)(struct timer *timer);
};

int loop_init(struct loop *loop);
void loop_done(struct loop *loop);

/* Waits for the next events and calls back for all of them. 0 or a negative errno. */
int loop_poll(struct loop *loop);

/* Watches fd. `events` may be 0: watched later, with source_set(). */
int source_attach(struct source *src, struct loop *loop, int fd, uint32_t events,
	void (*on_event)(struct source *src, uint32_t revents));

/* Changes what is watched for. 0 takes the descriptor out of the epoll set, so that not even a
 * hang-up is reported. */
void source_set(struct source *src, uint32_t events);

/* Ends the watch; the descriptor stays open. Harmless when not attached. */
void source_detach(struct source *src);

void timer_init(struct timer *timer, void (*on_timer)(struct timer *timer));
void timer_start(struct timer *timer, struct loop *loop, int64_t delay_ms);
void timer_stop(struct timer *timer);

static inline bool timer_running(const struct timer *timer)
{
	return !list_empty(&timer->node);
}
