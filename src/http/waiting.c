/* SPDX-License-Identifier: Apache-2.0 */
/* The connections on which nobody has shown that he may ask for anything. */
#include "http/waiting.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/macros.h"

void waiting_init(struct waiting *w, size_t max)
{
	*w = (struct waiting){.max = max};
	(void)pthread_mutex_init(&w->lock, NULL); /* never fails on Linux */
	list_init(&w->oldest);
}

void waiting_done(struct waiting *w)
{
	pthread_mutex_destroy(&w->lock);
}

/* Its thread finds that it has ended, and closes it. */
static void end_oldest(struct waiting *w)
{
	struct waiting_one *one = container_of(w->oldest.next, struct waiting_one, node);

	(void)shutdown(one->fd, SHUT_RDWR);
	list_remove(&one->node);
}

struct waiting_one *waiting_enter(struct waiting *w, int fd)
{
	struct waiting_one *one = xnew(struct waiting_one);

	one->fd = fd;
	pthread_mutex_lock(&w->lock);
	if (++w->open > w->max && !list_empty(&w->oldest))
		end_oldest(w);
	list_append(&w->oldest, &one->node);
	pthread_mutex_unlock(&w->lock);
	return one;
}

struct waiting_one *waiting_leave(struct waiting *w, struct waiting_one *one)
{
	pthread_mutex_lock(&w->lock);
	w->open--;
	list_remove(&one->node);
	pthread_mutex_unlock(&w->lock);
	free(one);
	return NULL;
}

void waiting_admit(struct waiting *w, struct waiting_one *one)
{
	pthread_mutex_lock(&w->lock);
	list_remove(&one->node);
	pthread_mutex_unlock(&w->lock);
}

void waiting_again(struct waiting *w, struct waiting_one *one)
{
	pthread_mutex_lock(&w->lock);
	list_append(&w->oldest, &one->node);
	pthread_mutex_unlock(&w->lock);
}
