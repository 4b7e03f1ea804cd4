/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange with an HTTP/1.1 server in a sandbox, over a stream of the link.
 *
 *	upstream_new() → upstream_expect() → upstream_send()… → upstream_wait_head() → upstream_read()… → upstream_close()
 *
 * Everything that the server says is hostile: its head is bounded, its body is read piece by piece and never kept. For one
 * thread, the connection's. Failures of the server are ERR_UPSTREAM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/core.h"

struct upstream;

/*
 * Takes over a stream that was opened with {"op":"connect"}; that the port refuses is told by what follows. client_fd is
 * borrowed: all that waits here ends with -ECONNRESET when that client goes away. `sb` is asked for why it died; or NULL.
 */
struct upstream *upstream_new(struct link_stream *stream, struct sandbox *sb, uint16_t port,
	int client_fd);
struct upstream *upstream_close(struct upstream *u);

/* What the failure `r` of such a stream means to a client: *err in its words. Returns the errno. */
int upstream_explain(struct sandbox *sb, int r, struct err *err);

/* What the client asked for, which tells whether an answer has a body. Before all that follows. */
void upstream_expect(struct upstream *u, bool no_body, bool upgrade);

/*
 * Sends a part of the request. Reads meanwhile, for a server may answer before it has read everything: what comes after
 * its answer has begun is dropped. -ETIMEDOUT (ERR_TIMEOUT) when it takes nothing for `stall_ms`.
 */
int upstream_send(struct upstream *u, const void *data, size_t len, int64_t stall_ms,
	struct err *err);

/* The head of its answer. */
struct upstream_head {
	int status;
	const struct buf *headers; /* headers.h; borrowed from the upstream */
	int64_t body_len;          /* as announced; -1: unknown */
	bool upgraded; /* status is 101, and the stream is in another protocol from here on */
};
/* -ETIMEDOUT (ERR_TIMEOUT) after wait_ms. */
int upstream_wait_head(struct upstream *u, int64_t wait_ms, struct upstream_head *ret,
	struct err *err);

/* The next bytes of the body: over 0 of them, 0 at its end, or a negative errno where it ends too early. */
ssize_t upstream_read(struct upstream *u, void *dst, size_t max);

/* After an upgrade: the stream (still the upstream's), and what was already read of it. */
struct link_stream *upstream_stream(struct upstream *u);
const void *upstream_rest(const struct upstream *u, size_t *ret_len);
