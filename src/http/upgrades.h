/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections that speak another protocol by now, so that a server that stops can end them: the library knows of none
 * that it gave away. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"

struct upgrades {
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t left;
	struct list open;
	bool stopping;
};

/* One of them, on the stack of its thread. */
struct upgraded {
	struct list node;
	int fd;  /* borrowed */
	int how; /* SHUT_…: what is done to it when the server stops */
};

void upgrades_init(struct upgrades *u);
void upgrades_done(struct upgrades *u);

/* False when the server stops: the connection is then to be closed at once. */
bool upgrades_enter(struct upgrades *u, struct upgraded *one, int fd, int how);
/* Before the descriptor is closed. */
void upgrades_leave(struct upgrades *u, struct upgraded *one);

/* Hangs all of them up and waits until they have left; no more may enter. */
void upgrades_stop(struct upgrades *u);
