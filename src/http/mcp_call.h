/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool, called: the routes of the API do what it says, so that both check and answer alike.
 *
 * Where a call goes: at the endpoint of a sandbox to that one, else where `sandbox_id` says, else to the sandbox of the
 * client's session, which is made by the first call; without a session to a new one. A session is no more than a name: its
 * sandbox is the one that was created with the idempotency key of that name; only that it has ended is kept (mcp_sessions.h).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "http/http.h"
#include "mcp/content.h"
#include "mcp/message.h"
#include "mcp/tools.h"

struct mcp_call {
	struct http_req *req;       /* borrowed */
	struct mcp_message message; /* owned */
	const json_t *args;         /* borrowed from the message; an object, or NULL */
	struct sandbox *sb;         /* owned reference, once it is known */
	bool made;                  /* it was made for this call */
};

void mcp_call_done(struct mcp_call *c);

/* Finds the sandbox or makes it. */
int mcp_call_sandbox(struct mcp_call *c, struct err *err);

/* Runs a tool of those that answer at once. */
int mcp_call_tool(struct mcp_call *c, enum mcp_tool tool, struct mcp_content *ret, struct err *err);

/* resources/read: *ret is its result. */
int mcp_call_read(struct mcp_call *c, json_t **ret, struct err *err);

/* The answer to the call: names the sandbox in the content, and ends that. NULL without memory. */
json_t *mcp_call_answer(struct mcp_call *c, struct mcp_content *content);

/* The name of the client's session, or NULL. ERR_INVALID. */
int mcp_session(const struct http_req *req, const char **ret, struct err *err);
/* Ends a session and its sandbox, if there is one: for good. */
int mcp_session_end(struct http_req *req, const char *session, struct err *err);
