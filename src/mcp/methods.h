/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks for that needs no sandbox: how to speak, and what there is. Pure. */
#pragma once

#include "mcp/message.h"
#include "mcp/tools.h"

/* What is left for who has sandboxes; MCP_DONE: nothing, *answer is the answer. */
enum mcp_todo {
	MCP_DONE,
	MCP_CALL, /* tools/call */
	MCP_READ, /* resources/read */
};

enum mcp_todo mcp_answer(const struct mcp_message *m, enum mcp_scope scope,
	struct mcp_answer *answer);
