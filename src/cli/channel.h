/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket to the daemon, over a connection that libcurl makes (TLS, proxies). For one thread, which takes turns and waits for
 * channel_fd(); others may have channels of the same client.
 */
#pragma once

#include "cli/client.h"
#include "proto/websocket.h"

struct channel;

/*
 * Connects, and waits for the daemon's answer. What is no success is an error as of client_send(); -ECANCELED where `interrupt_fd` (or
 * -1) turns readable meanwhile.
 */
int channel_open(const struct client *client, const char *path, const struct websocket_ops *ops,
	void *user, int interrupt_fd, struct channel **ret, struct err *err);
/* Without a word: websocket_close() and some turns are more polite. Returns NULL. */
struct channel *channel_free(struct channel *c);
DEFINE_CLEANUP(struct channel *, channel_free)
#define _cleanup_channel_ CLEANUP(channel_freep)

struct websocket *channel_websocket(struct channel *c);
int channel_fd(const struct channel *c);
/* Whether all that was sent is on its way. */
bool channel_idle(const struct channel *c);

/*
 * Sends what waits, and where `reads` is set takes some of what came: 1, 0 where nothing moved; -ESHUTDOWN once the WebSocket is over
 * (websocket_peer_code() says how), or -ECONNRESET with *err.
 */
int channel_turn(struct channel *c, bool reads, struct err *err);
