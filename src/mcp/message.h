/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the Model Context Protocol (JSON-RPC 2.0): what a client sent, checked, and what it gets.
 *
 * Two eras are spoken. A *modern* request (2026-07-28) names its version and what its client can do in its own `_meta`, and
 * says the same in HTTP headers; a *legacy* one (2025-03-26 to 2025-11-25) came behind an `initialize`. Nothing here
 * remembers an earlier message. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCP_MODERN "2026-07-28"

/* Of JSON-RPC, and of the specification of 2026-07-28 (Basic, "Error Codes"). */
enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_NO_METHOD = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL_ERROR = -32603,
	MCP_NO_RESOURCE = -32002, /* of legacy versions; later it is a parameter that is invalid */
	MCP_HEADER_MISMATCH = -32020,
	MCP_UNSUPPORTED_VERSION = -32022,
};

/* Headers of the HTTP request: borrowed, NULL where one is missing. */
struct mcp_headers {
	const char *version; /* MCP-Protocol-Version */
	const char *method;  /* Mcp-Method */
	const char *name;    /* Mcp-Name */
};

struct mcp_message {
	json_t *root;       /* owned; what is below is borrowed from it */
	json_t *id;         /* a string or an integer; NULL: a notification, which gets no answer */
	const char *method; /* never NULL */
	json_t *params;     /* an object, or NULL */
	bool modern;
};

/* What goes back in place of anything else: an HTTP status, and a message (owned) or NULL. */
struct mcp_answer {
	int status;
	json_t *body;
};

/* 0, or -EINVAL with *answer, which says what is wrong with the message. */
int mcp_message_read(const char *text, size_t len, const struct mcp_headers *headers,
	struct mcp_message *ret, struct mcp_answer *answer);
void mcp_message_done(struct mcp_message *m);

/* Versions that are spoken, newest first: a new array. */
json_t *mcp_versions(void);
/* The legacy version to speak with a client that wishes this one (NULL: it said nothing). */
const char *mcp_negotiate(const char *wanted);

/* The answers to a request; they take the reference. NULL without memory. */
json_t *mcp_result(const struct mcp_message *m, json_t *result);
json_t *mcp_error(const json_t *id, enum mcp_code code, const char *text, json_t *data);

/* How far a request is, for a client that asked to be told; NULL for one that did not. `progress` must rise. */
json_t *mcp_progress(const struct mcp_message *m, uint64_t progress, const char *text);
