/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that are under way, so that a message can cancel one: what legacy clients do, which may not mean anything by
 * closing a connection. Any thread.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "base/list.h"

struct mcp_calls {
	pthread_mutex_t lock;
	struct list list;
};

/* One of them; not a part of the list where it has no session. */
struct mcp_entry {
	struct list node;
	const char *session; /* borrowed; NULL: none */
	const json_t *id;    /* borrowed; of the request */
	int client_fd;       /* borrowed; open until mcp_calls_leave() */
};

void mcp_calls_init(struct mcp_calls *calls);
void mcp_calls_done(struct mcp_calls *calls);

void mcp_calls_enter(struct mcp_calls *calls, struct mcp_entry *entry);
void mcp_calls_leave(struct mcp_calls *calls, struct mcp_entry *entry);

/* Ends the connection of that request of the session: to who works for it, its client is gone. */
void mcp_calls_cancel(struct mcp_calls *calls, const char *session, const json_t *id);
