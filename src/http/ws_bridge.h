/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket joined to a stream of the link: binary messages are the stream's bytes, text messages are what there is to say
 * besides. The route says what that is (struct ws_bridge_ops).
 */
#pragma once

#include <jansson.h>

#include "core/core.h"
#include "http/ws_peer.h"

struct ws_bridge;

struct ws_bridge_ops {
	/* An object that the client sends. What is wrong with it ends the connection, with *err as the reason. */
	int (*on_message)(struct ws_bridge *b, const json_t *message, struct err *err);
	/* The guest sends no more bytes; may be NULL. */
	void (*on_end)(struct ws_bridge *b);
	/* The guest's answer, after which the connection is closed; may be NULL. */
	void (*on_close)(struct ws_bridge *b, const json_t *ok);
};

struct ws_bridge {
	const struct ws_bridge_ops *ops;
	struct sandbox *sb;         /* owned reference */
	struct link_stream *stream; /* owned */
	struct ws_peer peer;
	struct buf up;  /* from the client, not yet sent */
	bool up_ends;   /* nothing comes behind that */
	bool up_over;   /* the guest knows, or takes no more */
	bool down_over; /* ... and says no more */
	struct err err; /* why it is closed; kind 0: all is well */
	enum websocket_code code;
};

/* Takes the reference and the stream. */
struct ws_bridge *ws_bridge_new(const struct http_req *req, const struct ws_bridge_ops *ops,
	struct sandbox *sb, struct link_stream *stream);
struct ws_bridge *ws_bridge_free(struct ws_bridge *b);

/* In the connection's thread, until it is closed by either end. */
void ws_bridge_run(struct ws_bridge *b, int fd, const void *early, size_t len);

/* For on_message(): more bytes for the guest; and no more. */
void ws_bridge_push(struct ws_bridge *b, const void *data, size_t len);
void ws_bridge_end(struct ws_bridge *b);

/* Sends an object; takes the reference. */
void ws_bridge_say(struct ws_bridge *b, json_t *message);
