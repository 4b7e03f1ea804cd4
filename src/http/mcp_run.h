/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that run something: code, a command, an installation. Their clients may follow them. */
#pragma once

#include "http/mcp_call.h"

/* Whether it is one of them. */
bool mcp_runs(enum mcp_tool tool);

/*
 * Starts it and answers, with a stream that tells how it goes on where the client takes one, else at its end. Where it
 * starts the call is taken. A client that goes away ends what runs.
 */
int mcp_run(struct mcp_call *c, enum mcp_tool tool, struct http_resp *resp, struct err *err);
