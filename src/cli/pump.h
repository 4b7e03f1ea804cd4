/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between a channel and two descriptors: what comes in as binary messages is written, what is read is sent as such. A side that
 * takes nothing stops the other one.
 *
 *	struct pump p = {…}; channel_open(…, &pump_ops, &p, &p.channel, err); pump_run(&p, err);
 */
#pragma once

#include "cli/channel.h"

struct pump;

struct pump_ops {
	/* A text message. 0, or a negative errno with *err that ends the run. */
	int (*on_text)(struct pump *p, const char *text, size_t len, struct err *err);
	/* `in_fd` has ended. */
	void (*on_in_end)(struct pump *p);
	/* `event_fd` is readable. The same as on_text(). */
	int (*on_event)(struct pump *p, struct err *err);
};

struct pump {
	const struct pump_ops *ops;
	struct channel *channel; /* borrowed */
	int in_fd, out_fd;       /* borrowed; they may be the same, and may block */
	int event_fd;            /* borrowed; or -1 */
	bool shuts_down; /* set it: out_fd, a socket, is shut down behind all that was written */
	struct buf down; /* to be written; pump_init() */
	bool in_over;
	int r; /* of a callback */
	struct err err;
};

extern const struct websocket_ops pump_ops;

struct pump pump_init(const struct pump_ops *ops, int in_fd, int out_fd, int event_fd);
void pump_done(struct pump *p);
#define _cleanup_pump_ CLEANUP(pump_done)

/*
 * Until the WebSocket is over, and all that came is written: 0, and websocket_peer_code() says how it ended. -EPIPE where out_fd is gone,
 * -ECONNRESET (with *err) where the daemon is, or what a callback has returned.
 */
int pump_run(struct pump *p, struct err *err);
