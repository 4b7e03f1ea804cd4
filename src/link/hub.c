/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll thread for all descriptors that the daemon waits for.
 *
 * Theory of operation
 * -------------------
 * Every watch is armed with EPOLLONESHOT, so a descriptor is silent while its callback runs and until
 * it is armed again. The thread may have fetched an event of a watch that another thread removes at
 * that moment: so the event carries no pointer but a slot number and the slot's generation, which are
 * looked up under the lock. Removal waits on `idle` while the callback of that very watch runs.
 */
#include "link/hub.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct link_watch {
	struct link_hub *hub; /* borrowed */
	int fd;               /* borrowed */
	link_watch_fn *on_ready;
	void *user;
	uint32_t slot;
};

struct slot {
	struct link_watch *watch; /* NULL: free */
	uint32_t generation;
};

struct link_hub {
	int epoll_fd;
	int stop_fd;
	pthread_t thread;
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t idle;
	struct link_watch *running; /* whose callback runs now */
	struct slot *slots;
	uint32_t n_slots;
};

/* No slot has this number: it says that the thread shall end. */
#define SLOT_STOP UINT32_MAX

static void dispatch(struct link_hub *hub, uint32_t slot, uint32_t generation)
{
	struct link_watch *w = NULL;

	pthread_mutex_lock(&hub->lock);
	if (slot < hub->n_slots && hub->slots[slot].generation == generation)
		w = hub->slots[slot].watch;
	hub->running = w;
	pthread_mutex_unlock(&hub->lock);
	if (!w)
		return;
	w->on_ready(w->user);
	pthread_mutex_lock(&hub->lock);
	hub->running = NULL;
	pthread_cond_broadcast(&hub->idle);
	pthread_mutex_unlock(&hub->lock);
}

static void *hub_main(void *arg)
{
	struct link_hub *hub = arg;
	struct epoll_event events[32];

	for (;;) {
		int n = epoll_wait(hub->epoll_fd, events, ARRAY_SIZE(events), -1);

		for (int i = 0; i < n; i++) {
			uint32_t slot = (uint32_t)(events[i].data.u64 >> 32);

			if (slot == SLOT_STOP)
				return NULL;
			dispatch(hub, slot, (uint32_t)events[i].data.u64);
		}
	}
}

int link_hub_new(struct link_hub **ret, struct err *err)
{
	struct link_hub *hub = xnew(struct link_hub);
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint64_t)SLOT_STOP << 32};
	int r;

	(void)pthread_mutex_init(&hub->lock, NULL); /* never fails on Linux */
	(void)pthread_cond_init(&hub->idle, NULL);
	hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	hub->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (hub->epoll_fd < 0 || hub->stop_fd < 0 ||
		epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, hub->stop_fd, &ev) < 0)
		r = -errno;
	else
		r = -pthread_create(&hub->thread, NULL, hub_main, hub);
	if (r < 0) {
		cleanup_close(&hub->epoll_fd);
		cleanup_close(&hub->stop_fd);
		free(hub);
		return err_set_errno(err, r, "can't start the event loop");
	}
	*ret = hub;
	return 0;
}

struct link_hub *link_hub_free(struct link_hub *hub)
{
	uint64_t one = 1;

	if (!hub)
		return NULL;
	(void)!write(hub->stop_fd, &one, sizeof(one)); /* an eventfd takes its first 8 bytes */
	(void)pthread_join(hub->thread, NULL);
	(void)close(hub->epoll_fd);
	(void)close(hub->stop_fd);
	pthread_mutex_destroy(&hub->lock);
	pthread_cond_destroy(&hub->idle);
	free(hub->slots);
	free(hub);
	return NULL;
}

/* Finds a free slot, or makes more; called with the lock held. */
static uint32_t take_slot(struct link_hub *hub)
{
	uint32_t old = hub->n_slots;
	struct slot *more;

	for (uint32_t i = 0; i < old; i++) {
		if (!hub->slots[i].watch)
			return i;
	}
	more = xcalloc(old + 64, sizeof(*more));
	if (old)
		memcpy(more, hub->slots, old * sizeof(*more));
	free(hub->slots);
	hub->slots = more;
	hub->n_slots = old + 64;
	return old;
}

/* Arms the descriptor for one event; `op` is ADD or MOD. The lock is held. */
static int arm(struct link_watch *w, int op)
{
	struct epoll_event ev = {
		.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT,
		.data.u64 = (uint64_t)w->slot << 32 | w->hub->slots[w->slot].generation,
	};

	return epoll_ctl(w->hub->epoll_fd, op, w->fd, &ev) < 0 ? -errno : 0;
}

int link_hub_watch(struct link_hub *hub, int fd, link_watch_fn *on_ready, void *user,
	struct link_watch **ret, struct err *err)
{
	struct link_watch *w = xnew(struct link_watch);
	int r;

	w->hub = hub;
	w->fd = fd;
	w->on_ready = on_ready;
	w->user = user;
	pthread_mutex_lock(&hub->lock);
	w->slot = take_slot(hub);
	hub->slots[w->slot].watch = w;
	*ret = w; /* before the callback can run */
	r = arm(w, EPOLL_CTL_ADD);
	if (r < 0) {
		hub->slots[w->slot].watch = NULL;
		*ret = NULL;
		free(w);
	}
	pthread_mutex_unlock(&hub->lock);
	return r < 0 ? err_set_errno(err, r, "can't watch a descriptor") : 0;
}

void link_hub_rearm(struct link_watch *w)
{
	pthread_mutex_lock(&w->hub->lock);
	/* Fails only for a descriptor that was closed: then there are no events. */
	(void)arm(w, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&w->hub->lock);
}

struct link_watch *link_hub_unwatch(struct link_watch *w)
{
	struct link_hub *hub;

	if (!w)
		return NULL;
	hub = w->hub;
	pthread_mutex_lock(&hub->lock);
	hub->slots[w->slot].watch = NULL;
	hub->slots[w->slot].generation++;
	(void)epoll_ctl(hub->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL); /* gone is gone */
	if (!pthread_equal(pthread_self(), hub->thread)) {
		while (hub->running == w)
			pthread_cond_wait(&hub->idle, &hub->lock);
	}
	pthread_mutex_unlock(&hub->lock);
	free(w);
	return NULL;
}
