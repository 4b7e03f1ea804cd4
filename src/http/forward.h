/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a client's request goes to a server in a sandbox, and what of the server's answer comes back. Pure.
 *
 * Each side is told how long a body is by its own connection alone, anew: what one side said about it never reaches the
 * other, so the two ends of this proxy cannot be made to disagree about where a message ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* The cookie that a browser shows instead of a key; a server never sees it. */
#define FORWARD_COOKIE "pandastack_preview"

enum forward_body {
	FORWARD_NO_BODY,
	FORWARD_LENGTH,
	FORWARD_CHUNKED,
};

struct forward {
	const char *method;
	const char *target; /* as the client wrote it, without what is ours: "/a?b", "" is "/" */
	const struct buf *headers; /* the client's (headers.h) */
	uint16_t port;             /* of the server */
	const char *host;          /* as the client calls us */
	const char *proto;         /* "http" or "https", likewise */
	const char *prefix; /* of the client's paths; "" where the host name is the server's */
	const char *client; /* its address */
	bool authorization; /* that header is meant for the server */
	bool upgrade;       /* the client wants another protocol */
	enum forward_body body;
	uint64_t body_len; /* FORWARD_LENGTH */
};

/* Writes the request's head. -EINVAL (ERR_INVALID) where method or target are malformed; -EMSGSIZE (ERR_TOO_LARGE). */
int forward_request(const struct forward *f, struct buf *out, struct err *err);

/* Turns the server's headers into the client's. -EMSGSIZE, -ENOMEM. */
int forward_answer(const struct forward *f, const struct buf *headers, struct buf *out);
