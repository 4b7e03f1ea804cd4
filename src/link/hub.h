/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll thread for all descriptors that the daemon waits for without a thread of their own:
 * links, consoles and the ends of machines.
 *
 * The hub never blocks on anything but epoll, so callbacks must not block either.
 */
#pragma once

#include "base/err.h"

struct link_hub;
struct link_watch;

int link_hub_new(struct link_hub **ret, struct err *err);
/* Ends the thread. All watches must be gone before. NULL is fine. */
struct link_hub *link_hub_free(struct link_hub *hub);

/*
 * Calls on_ready(user) in the hub's thread when `fd` turns readable or hangs up: once, and again
 * only after link_hub_rearm(). The descriptor stays the caller's and must outlive the watch.
 */
typedef void link_watch_fn(void *user);
int link_hub_watch(struct link_hub *hub, int fd, link_watch_fn *on_ready, void *user,
	struct link_watch **ret, struct err *err);

void link_hub_rearm(struct link_watch *w);

/*
 * Removes the watch and frees it. When it returns, the callback is not running and never runs again;
 * called from the callback itself, it returns at once. NULL is fine; returns NULL.
 */
struct link_watch *link_hub_unwatch(struct link_watch *w);
