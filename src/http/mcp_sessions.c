/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions that have ended. */
#include "http/mcp_sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void mcp_sessions_init(struct mcp_sessions *sessions)
{
	(void)pthread_mutex_init(&sessions->lock, NULL);
	(void)pthread_cond_init(&sessions->left, NULL);
	list_init(&sessions->held);
}

void mcp_sessions_done(struct mcp_sessions *sessions)
{
	(void)pthread_cond_destroy(&sessions->left);
	(void)pthread_mutex_destroy(&sessions->lock);
}

/* The lock is held. */
static int check(const struct mcp_sessions *sessions, const char *session, struct err *err)
{
	for (unsigned int i = 0; i < LIMIT_MCP_ENDED_SESSIONS; i++) {
		if (strcmp(sessions->ended[i], session) == 0)
			return err_set(err, ERR_SESSION_NOT_FOUND, -ESHUTDOWN,
				"this session has ended: begin another one (`initialize`)");
	}
	return 0;
}

int mcp_sessions_check(struct mcp_sessions *sessions, const char *session, struct err *err)
{
	int r;

	pthread_mutex_lock(&sessions->lock);
	r = check(sessions, session, err);
	pthread_mutex_unlock(&sessions->lock);
	return r;
}

int mcp_sessions_hold(struct mcp_sessions *sessions, struct mcp_hold *hold, const char *session,
	struct err *err)
{
	int r;

	hold->session = session;
	pthread_mutex_lock(&sessions->lock);
	r = check(sessions, session, err);
	if (r == 0)
		list_append(&sessions->held, &hold->node);
	pthread_mutex_unlock(&sessions->lock);
	return r;
}

void mcp_sessions_leave(struct mcp_sessions *sessions, struct mcp_hold *hold)
{
	pthread_mutex_lock(&sessions->lock);
	list_remove(&hold->node);
	pthread_cond_broadcast(&sessions->left);
	pthread_mutex_unlock(&sessions->lock);
}

/* The lock is held. */
static bool is_held(struct mcp_sessions *sessions, const char *session)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &sessions->held) {
		if (strcmp(container_of(it, struct mcp_hold, node)->session, session) == 0)
			return true;
	}
	return false;
}

void mcp_sessions_end(struct mcp_sessions *sessions, const char *session)
{
	pthread_mutex_lock(&sessions->lock);
	if (check(sessions, session, NULL) == 0)
		(void)snprintf(sessions->ended[sessions->next++ % LIMIT_MCP_ENDED_SESSIONS],
			sizeof(sessions->ended[0]), "%s", session);
	while (is_held(sessions, session))
		pthread_cond_wait(&sessions->left, &sessions->lock);
	pthread_mutex_unlock(&sessions->lock);
}
