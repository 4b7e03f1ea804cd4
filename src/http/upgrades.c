/* SPDX-License-Identifier: Apache-2.0 */
/* The connections that speak another protocol by now. */
#include "http/upgrades.h"

#include <sys/socket.h>

#include "base/macros.h"

void upgrades_init(struct upgrades *u)
{
	*u = (struct upgrades){0};
	(void)pthread_mutex_init(&u->lock, NULL); /* never fails on Linux */
	(void)pthread_cond_init(&u->left, NULL);
	list_init(&u->open);
}

void upgrades_done(struct upgrades *u)
{
	pthread_mutex_destroy(&u->lock);
	pthread_cond_destroy(&u->left);
}

bool upgrades_enter(struct upgrades *u, struct upgraded *one, int fd, int how)
{
	bool may;

	one->fd = fd;
	one->how = how;
	pthread_mutex_lock(&u->lock);
	may = !u->stopping;
	if (may)
		list_append(&u->open, &one->node);
	pthread_mutex_unlock(&u->lock);
	return may;
}

void upgrades_leave(struct upgrades *u, struct upgraded *one)
{
	pthread_mutex_lock(&u->lock);
	list_remove(&one->node);
	pthread_cond_broadcast(&u->left);
	pthread_mutex_unlock(&u->lock);
}

void upgrades_stop(struct upgrades *u)
{
	struct list *it, *tmp;

	pthread_mutex_lock(&u->lock);
	u->stopping = true;
	list_for_each(it, tmp, &u->open) {
		const struct upgraded *one = container_of(it, struct upgraded, node);

		(void)shutdown(one->fd, one->how);
	}
	while (!list_empty(&u->open))
		pthread_cond_wait(&u->left, &u->lock);
	pthread_mutex_unlock(&u->lock);
}
