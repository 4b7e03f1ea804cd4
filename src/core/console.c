/* SPDX-License-Identifier: Apache-2.0 */
/* The last that a machine's console has said. */
#include "core/console.h"

#include <string.h>

#include "base/macros.h"

void console_init(struct console *c)
{
	*c = (struct console){0};
	(void)pthread_mutex_init(&c->lock, NULL); /* never fails on Linux */
	list_init(&c->followers);
}

void console_done(struct console *c)
{
	assert(list_empty(&c->followers));
	pthread_mutex_destroy(&c->lock);
	free(c->data);
}

void console_push(struct console *c, const void *data, size_t len)
{
	const char *bytes = data;

	pthread_mutex_lock(&c->lock);
	if (!c->data)
		c->data = xcalloc(1, CONSOLE_BYTES);
	for (size_t i = 0; i < len; i++)
		c->data[c->total++ % CONSOLE_BYTES] = bytes[i];
	followers_ring(&c->followers);
	pthread_mutex_unlock(&c->lock);
}

void console_close(struct console *c)
{
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	followers_ring(&c->followers);
	pthread_mutex_unlock(&c->lock);
}

size_t console_read(struct console *c, uint64_t *at, char *dst, size_t size, bool *ret_closed)
{
	size_t n = 0;

	pthread_mutex_lock(&c->lock);
	if (c->total - *at > CONSOLE_BYTES)
		*at = c->total - CONSOLE_BYTES;
	while (n < size && *at < c->total)
		dst[n++] = c->data[(*at)++ % CONSOLE_BYTES];
	*ret_closed = c->closed;
	pthread_mutex_unlock(&c->lock);
	return n;
}

int console_follow(struct console *c, struct follower *f, struct err *err)
{
	f->bell = bell_new();
	if (f->bell < 0)
		return err_set_errno(err, f->bell, "can't follow the console");
	pthread_mutex_lock(&c->lock);
	list_append(&c->followers, &f->node);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

void console_unfollow(struct console *c, struct follower *f)
{
	pthread_mutex_lock(&c->lock);
	list_remove(&f->node);
	pthread_mutex_unlock(&c->lock);
	cleanup_close(&f->bell);
}
