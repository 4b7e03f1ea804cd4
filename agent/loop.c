/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's event loop: epoll and a short list of timers; it sleeps for ever when neither is due. */
#include "loop.h"

#include <errno.h>
#include <limits.h>

#include "base/clock.h"
#include "base/macros.h"

int loop_init(struct loop *loop)
{
	*loop = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	list_init(&loop->timers);
	return loop->epoll_fd < 0 ? -errno : 0;
}

void loop_done(struct loop *loop)
{
	cleanup_close(&loop->epoll_fd);
	loop->epoll_fd = -1;
}

/* Milliseconds until the first timer is due; -1 where there is none. */
static int wait_ms(struct loop *loop)
{
	int64_t first = INT64_MAX, left;
	struct list *it, *tmp;

	list_for_each(it, tmp, &loop->timers) {
		const struct timer *t = container_of(it, struct timer, node);

		first = MIN(first, t->deadline_ms);
	}
	if (first == INT64_MAX)
		return -1;
	left = first - clock_mono_ms();
	return left < 0 ? 0 : (int)MIN(left, INT_MAX);
}

/* One timer per pass: a callback may stop any other. */
static bool run_due_timer(struct loop *loop)
{
	int64_t now = clock_mono_ms();
	struct list *it, *tmp;

	list_for_each(it, tmp, &loop->timers) {
		struct timer *t = container_of(it, struct timer, node);

		if (t->deadline_ms > now)
			continue;
		list_remove(&t->node);
		t->on_timer(t);
		return true;
	}
	return false;
}

int loop_poll(struct loop *loop)
{
	int n = epoll_wait(loop->epoll_fd, loop->batch, LOOP_BATCH, wait_ms(loop));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	loop->batch_len = n;
	for (int i = 0; i < n; i++) {
		struct source *src = loop->batch[i].data.ptr;

		if (src)
			src->on_event(src, loop->batch[i].events);
	}
	loop->batch_len = 0;
	while (run_due_timer(loop))
		;
	return 0;
}

int source_attach(struct source *src, struct loop *loop, int fd, uint32_t events,
	void (*on_event)(struct source *src, uint32_t revents))
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	if (events && epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	*src = (struct source){.fd = fd, .events = events, .on_event = on_event, .loop = loop};
	return 0;
}

/* Events of this batch that are still to be delivered must not reach a source that is gone. */
static void drop_fetched(struct source *src)
{
	for (int i = 0; i < src->loop->batch_len; i++) {
		if (src->loop->batch[i].data.ptr == src)
			src->loop->batch[i].data.ptr = NULL;
	}
}

void source_set(struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};
	int op, r;

	if (!src->loop || src->events == events)
		return;
	op = !events ? EPOLL_CTL_DEL : src->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	if (op == EPOLL_CTL_DEL)
		drop_fetched(src);
	r = epoll_ctl(src->loop->epoll_fd, op, src->fd, &ev);
	if (r < 0)
		abort(); /* only ENOMEM and a wrong descriptor are possible: both are the end */
	src->events = events;
}

void source_detach(struct source *src)
{
	source_set(src, 0);
	src->loop = NULL;
}

void timer_init(struct timer *timer, void (*on_timer)(struct timer *timer))
{
	*timer = (struct timer){.on_timer = on_timer};
	list_init(&timer->node);
}

void timer_start(struct timer *timer, struct loop *loop, int64_t delay_ms)
{
	timer->deadline_ms = clock_mono_ms() + delay_ms;
	list_remove(&timer->node);
	list_append(&loop->timers, &timer->node);
}

void timer_stop(struct timer *timer)
{
	list_remove(&timer->node);
}
