/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that are under way, so that a message can cancel one. */
#include "http/mcp_calls.h"

#include <string.h>
#include <sys/socket.h>

void mcp_calls_init(struct mcp_calls *calls)
{
	(void)pthread_mutex_init(&calls->lock, NULL);
	list_init(&calls->list);
}

void mcp_calls_done(struct mcp_calls *calls)
{
	(void)pthread_mutex_destroy(&calls->lock);
}

void mcp_calls_enter(struct mcp_calls *calls, struct mcp_entry *entry)
{
	list_init(&entry->node);
	if (!entry->session)
		return;
	pthread_mutex_lock(&calls->lock);
	list_append(&calls->list, &entry->node);
	pthread_mutex_unlock(&calls->lock);
}

void mcp_calls_leave(struct mcp_calls *calls, struct mcp_entry *entry)
{
	pthread_mutex_lock(&calls->lock);
	list_remove(&entry->node);
	pthread_mutex_unlock(&calls->lock);
}

void mcp_calls_cancel(struct mcp_calls *calls, const char *session, const json_t *id)
{
	pthread_mutex_lock(&calls->lock);
	for (struct list *it = calls->list.next; it != &calls->list; it = it->next) {
		const struct mcp_entry *e = container_of(it, struct mcp_entry, node);

		if (strcmp(e->session, session) == 0 && json_equal(e->id, id))
			(void)shutdown(e->client_fd,
				SHUT_RDWR); /* fails where it is gone already */
	}
	pthread_mutex_unlock(&calls->lock);
}
