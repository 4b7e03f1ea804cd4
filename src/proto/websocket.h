/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a WebSocket (RFC 6455), either end of it, without I/O: what came goes in by websocket_feed(), what is to
 * be sent waits in websocket_out().
 *
 * Pings are answered, the closing handshake is kept, and a peer that breaks a rule is told which and heard no more: a
 * frame that is masked or is not, reserved bits, a control frame in pieces, text that is not UTF-8. websocket_feed()
 * adds no more to what waits than it was given, besides what its callbacks send.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum websocket_role { WEBSOCKET_SERVER, WEBSOCKET_CLIENT };

enum websocket_code {
	WEBSOCKET_NORMAL = 1000,
	WEBSOCKET_GOING_AWAY = 1001,
	WEBSOCKET_PROTOCOL_ERROR = 1002,
	WEBSOCKET_UNSUPPORTED = 1003,
	WEBSOCKET_NO_CODE = 1005, /* never sent: its close had none */
	WEBSOCKET_NOT_UTF8 = 1007,
	WEBSOCKET_TOO_BIG = 1009,
	WEBSOCKET_INTERNAL = 1011,
};

enum {
	WEBSOCKET_REASON_MAX = 123,
	WEBSOCKET_ACCEPT_SIZE = 29,
};

/* The Sec-WebSocket-Accept that answers a Sec-WebSocket-Key. Pure. */
void websocket_accept(char ret[WEBSOCKET_ACCEPT_SIZE], const char *key);

/* Either may send or close; neither may free. After a close nothing is told any more. */
struct websocket_ops {
	/* A whole message: UTF-8, NUL-terminated behind `len`. */
	void (*on_text)(void *user, const char *text, size_t len);
	/* The next bytes of binary messages, whose borders count for nothing; NULL: they are refused. */
	void (*on_bytes)(void *user, const void *data, size_t len);
};

struct websocket;

/* A text is of at most text_max bytes. `ops` and `user` are borrowed. */
struct websocket *websocket_new(enum websocket_role role, size_t text_max,
	const struct websocket_ops *ops, void *user);
struct websocket *websocket_free(struct websocket *ws);

void websocket_feed(struct websocket *ws, const void *data, size_t len);

/* Each is behind all that waits already, and is left out after a close. */
void websocket_send_text(struct websocket *ws, const char *text, size_t len);
void websocket_send_bytes(struct websocket *ws, const void *data, size_t len);
void websocket_ping(struct websocket *ws);
/* A reason that is too long is cut. */
void websocket_close(struct websocket *ws, enum websocket_code code, const char *reason);

/* What is to be sent, for buf_consume(). */
struct buf *websocket_out(struct websocket *ws);

/* No message goes out any more: one of the two ends has closed, or the peer broke a rule. */
bool websocket_closing(const struct websocket *ws);
/* Nothing comes in any more, either. */
bool websocket_over(const struct websocket *ws);
/* The peer's code and reason (made printable); 0 where it has not closed. */
unsigned int websocket_peer_code(const struct websocket *ws);
const char *websocket_peer_reason(const struct websocket *ws);
