/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions that have ended, so that a message which comes behind the end of its session makes no new sandbox for it: one
 * that nobody would end. The last LIMIT_MCP_ENDED_SESSIONS are known. Any thread.
 */
#pragma once

#include <pthread.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"

struct mcp_sessions {
	pthread_mutex_t lock;
	pthread_cond_t left; /* one of `held` */
	struct list held;
	char ended[LIMIT_MCP_ENDED_SESSIONS][LIMIT_MCP_SESSION_BYTES + 1]; /* a ring */
	unsigned int next;                                                 /* of `ended` */
};

/* Somebody looks for the sandbox of a session, or makes it: meanwhile the session does not end. */
struct mcp_hold {
	struct list node;
	const char *session; /* borrowed */
};

void mcp_sessions_init(struct mcp_sessions *sessions);
void mcp_sessions_done(struct mcp_sessions *sessions);

/* ERR_SESSION_NOT_FOUND: it has ended. */
int mcp_sessions_check(struct mcp_sessions *sessions, const char *session, struct err *err);
int mcp_sessions_hold(struct mcp_sessions *sessions, struct mcp_hold *hold, const char *session,
	struct err *err);
void mcp_sessions_leave(struct mcp_sessions *sessions, struct mcp_hold *hold);

/* No hold of it can be had from now on; waits for those that there are. */
void mcp_sessions_end(struct mcp_sessions *sessions, const char *session);
