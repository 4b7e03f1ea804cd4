/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client at the other end of a WebSocket: its socket, the pings, the closing handshake. For one thread, the connection's,
 * which takes turns:
 *
 *	while (ws_peer_turn() >= 0) { move what can be moved; where nothing could: ws_peer_wait() }
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/http.h"
#include "proto/websocket.h"

/* A turn takes at most so much from the client. */
enum { WS_PEER_TURN_BYTES = 64 << 10 };

struct ws_peer {
	struct websocket *ws; /* owned */
	atomic_uint *count;   /* borrowed: http_stats.websockets */
	int fd;               /* borrowed */
	const char *early;    /* borrowed: what came with the request */
	size_t early_len;
	int64_t heard_ms; /* clock_mono_ms(): when it last was known to be there */
	int64_t pinged_ms;
	bool pinged;  /* since then, and can be heard to answer */
	bool blocked; /* it took nothing more */
};

/* Before the answer; ws_peer_done() in any case. The text of `ops` is of LIMIT_WEBSOCKET_TEXT_BYTES at most. */
void ws_peer_init(struct ws_peer *p, const struct http_req *req, const struct websocket_ops *ops,
	void *user);
void ws_peer_done(struct ws_peer *p);
/* When the connection is the WebSocket's. */
void ws_peer_begin(struct ws_peer *p, int fd, const void *early, size_t len);

/*
 * Sends what waits and takes up to max_in bytes of what came, as far as it goes at once: 1, or 0 where nothing went. Negative once
 * nothing comes or goes any more: the client has closed, is gone, or broke a rule; or the server stops.
 */
int ws_peer_turn(struct ws_peer *p, size_t max_in);

/* Whether all that was sent is on its way: a slow client is sent nothing more until then. */
bool ws_peer_idle(const struct ws_peer *p);

/*
 * Waits until a turn would move something (`reads`: it may be something that comes), one of `fds` is ready, or deadline_ms
 * (clock_mono_ms(); -1: never) has come; pings. -ETIMEDOUT where the client does not answer them.
 */
int ws_peer_wait(struct ws_peer *p, bool reads, struct pollfd *fds, nfds_t n_fds,
	int64_t deadline_ms);

/* Sends all that waits, and closes: the client is given some time to do so, too. */
void ws_peer_finish(struct ws_peer *p, enum websocket_code code, const char *reason);
