/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a WebSocket, by libwslay, without I/O. */
/*
 * The library parses frames and keeps the rules. It is given bytes from `in` and writes into `out` at once, whatever it is
 * asked to send: so it never queues, and a close does not overtake what was sent before. It buffers control frames alone:
 * binary messages pass through in pieces, text is gathered here up to its bound.
 */
#include "proto/websocket.h"

#include <nettle/sha1.h>
#include <string.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "base/str.h"

static_assert(WEBSOCKET_ACCEPT_SIZE == BASE64_LENGTH(SHA1_DIGEST_SIZE) + 1, "of a SHA-1");

struct websocket {
	wslay_event_context_ptr ctx; /* owned */
	enum websocket_role role;
	const struct websocket_ops *ops;
	void *user;
	const uint8_t *in; /* borrowed while websocket_feed() runs */
	size_t in_len;
	struct buf text; /* of the message that comes */
	struct buf out;
	uint8_t frame;   /* opcode of the frame that comes */
	uint8_t message; /* of the message that comes: a control frame may lie in between */
	unsigned int peer_code;
	char peer_reason[WEBSOCKET_REASON_MAX + 4]; /* str_printable() wants room for "..." */
};

void websocket_accept(char ret[WEBSOCKET_ACCEPT_SIZE], const char *key)
{
	static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t digest[SHA1_DIGEST_SIZE];
	struct sha1_ctx sha;

	sha1_init(&sha);
	sha1_update(&sha, strlen(key), (const uint8_t *)key);
	sha1_update(&sha, strlen(magic), (const uint8_t *)magic);
	sha1_digest(&sha, sizeof(digest), digest);
	base64_encode(ret, digest, sizeof(digest));
}

/* ---- what the library calls ---- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *dst, size_t len, int flags, void *user)
{
	struct websocket *ws = user;
	size_t n = MIN(len, ws->in_len);

	if (n == 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(dst, ws->in, n);
	ws->in += n;
	ws->in_len -= n;
	return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
	void *user)
{
	struct websocket *ws = user;

	if (buf_append(&ws->out, data, len) < 0)
		abort(); /* out of memory: who sends and who feeds bound it */
	return (ssize_t)len;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *dst, size_t len, void *user)
{
	return getrandom(dst, len, 0) == (ssize_t)len ? 0 : -1; /* so few bytes come at once */
}

static void on_frame(wslay_event_context_ptr ctx,
	const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
	struct websocket *ws = user;

	ws->frame = arg->opcode;
	if (arg->opcode == WSLAY_TEXT_FRAME || arg->opcode == WSLAY_BINARY_FRAME)
		ws->message = arg->opcode;
}

static void on_chunk(wslay_event_context_ptr ctx,
	const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
	struct websocket *ws = user;

	if (wslay_is_ctrl_frame(ws->frame) || websocket_closing(ws))
		return;
	if (ws->message == WSLAY_TEXT_FRAME) {
		if (buf_append(&ws->text, arg->data, arg->data_length) < 0)
			websocket_close(ws, WEBSOCKET_TOO_BIG, "this text message is too long");
	} else if (!ws->ops->on_bytes) {
		websocket_close(ws, WEBSOCKET_UNSUPPORTED, "only text messages are taken here");
	} else if (arg->data_length) {
		ws->ops->on_bytes(ws->user, arg->data, arg->data_length);
	}
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
	void *user)
{
	struct websocket *ws = user;

	if (arg->opcode == WSLAY_CONNECTION_CLOSE) {
		ws->peer_code = arg->status_code ? arg->status_code : WEBSOCKET_NO_CODE;
		if (arg->msg_length > 2)
			str_printable(ws->peer_reason, sizeof(ws->peer_reason),
				(const char *)arg->msg + 2, arg->msg_length - 2);
	} else if (arg->opcode == WSLAY_TEXT_FRAME && !websocket_closing(ws)) {
		ws->ops->on_text(ws->user, ws->text.data ? ws->text.data : "", ws->text.len);
		buf_done(&ws->text);
	}
}

static const struct wslay_event_callbacks callbacks = {
	.recv_callback = on_recv,
	.send_callback = on_send,
	.genmask_callback = on_mask,
	.on_frame_recv_start_callback = on_frame,
	.on_frame_recv_chunk_callback = on_chunk,
	.on_msg_recv_callback = on_message,
};

/* ---- ours ---- */

static wslay_event_context_ptr new_context(enum websocket_role role, struct websocket *ws)
{
	wslay_event_context_ptr ctx;
	int r = role == WEBSOCKET_SERVER ? wslay_event_context_server_init(&ctx, &callbacks, ws)
					 : wslay_event_context_client_init(&ctx, &callbacks, ws);

	if (r != 0)
		abort(); /* out of memory */
	wslay_event_config_set_no_buffering(ctx, 1);
	wslay_event_config_set_max_recv_msg_length(ctx, INT64_MAX);
	return ctx;
}

struct websocket *websocket_new(enum websocket_role role, size_t text_max,
	const struct websocket_ops *ops, void *user)
{
	struct websocket *ws = xnew(struct websocket);

	ws->ctx = new_context(role, ws);
	ws->role = role;
	ws->ops = ops;
	ws->user = user;
	ws->text = buf_init(text_max);
	ws->out = buf_init(SIZE_MAX / 2);
	return ws;
}

struct websocket *websocket_free(struct websocket *ws)
{
	if (!ws)
		return NULL;
	wslay_event_context_free(ws->ctx);
	buf_done(&ws->text);
	buf_done(&ws->out);
	free(ws);
	return NULL;
}

/* Writes what the library has for the peer. It fails without memory, or after the close, when there is nothing. */
static void flush(struct websocket *ws)
{
	(void)wslay_event_send(ws->ctx);
}

/* What came is no frame, which the library would answer by a close without a code. */
static void refuse_frame(struct websocket *ws)
{
	bool closed = wslay_event_get_close_sent(ws->ctx);

	wslay_event_context_free(ws->ctx);
	ws->ctx = new_context(ws->role, ws);
	wslay_event_shutdown_read(ws->ctx);
	if (!closed &&
		wslay_event_queue_close(ws->ctx, WEBSOCKET_PROTOCOL_ERROR, NULL, 0) ==
			WSLAY_ERR_NOMEM)
		abort();
}

void websocket_feed(struct websocket *ws, const void *data, size_t len)
{
	ws->in = data;
	ws->in_len = len;
	/* A peer that broke a rule is told, and then nothing is read any more. */
	if (wslay_event_recv(ws->ctx) == WSLAY_ERR_CALLBACK_FAILURE)
		refuse_frame(ws);
	ws->in_len = 0;
	flush(ws);
}

static void queue(struct websocket *ws, uint8_t opcode, const void *data, size_t len)
{
	const struct wslay_event_msg msg = {.opcode = opcode, .msg = data, .msg_length = len};

	if (websocket_closing(ws))
		return;
	if (wslay_event_queue_msg(ws->ctx, &msg) == WSLAY_ERR_NOMEM)
		abort();
	flush(ws);
}

void websocket_send_text(struct websocket *ws, const char *text, size_t len)
{
	queue(ws, WSLAY_TEXT_FRAME, text, len);
}

void websocket_send_bytes(struct websocket *ws, const void *data, size_t len)
{
	queue(ws, WSLAY_BINARY_FRAME, data, len);
}

void websocket_ping(struct websocket *ws)
{
	queue(ws, WSLAY_PING, NULL, 0);
}

/* As many bytes of a reason as there may be, and no part of a character. */
static size_t reason_length(const char *reason)
{
	size_t len = strlen(reason);

	if (len <= WEBSOCKET_REASON_MAX)
		return len;
	len = WEBSOCKET_REASON_MAX;
	while (len > 0 && ((uint8_t)reason[len] & 0xc0) == 0x80)
		len--;
	return len;
}

void websocket_close(struct websocket *ws, enum websocket_code code, const char *reason)
{
	if (websocket_closing(ws))
		return;
	if (wslay_event_queue_close(ws->ctx, (uint16_t)code, (const uint8_t *)reason,
		    reason_length(reason)) == WSLAY_ERR_NOMEM)
		abort();
	flush(ws);
}

struct buf *websocket_out(struct websocket *ws)
{
	return &ws->out;
}

bool websocket_closing(const struct websocket *ws)
{
	return wslay_event_get_close_sent(ws->ctx) || wslay_event_get_close_received(ws->ctx) ||
		!wslay_event_get_read_enabled(ws->ctx);
}

bool websocket_over(const struct websocket *ws)
{
	return websocket_closing(ws) &&
		(wslay_event_get_close_received(ws->ctx) || !wslay_event_get_read_enabled(ws->ctx));
}

unsigned int websocket_peer_code(const struct websocket *ws)
{
	return ws->peer_code;
}

const char *websocket_peer_reason(const struct websocket *ws)
{
	return ws->peer_reason;
}
