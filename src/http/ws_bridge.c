/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket joined to a stream of the link. */
/*
 * As in bridge.c, each turn moves what can be moved without waiting, and a turn that moved nothing waits for what it lacked. The
 * client is read when all that it said before has been sent to the guest, the stream when all that came from it has been sent
 * to the client: so a side that does not read stops the other one.
 */
#include "http/ws_bridge.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "http/json_in.h"

static void fail(struct ws_bridge *b, enum websocket_code code)
{
	b->code = code;
	b->down_over = true;
}

/* ---- up: from the client ---- */

void ws_bridge_push(struct ws_bridge *b, const void *data, size_t len)
{
	if (!b->up_ends && buf_append(&b->up, data, len) < 0)
		abort(); /* out of memory: nothing is read while something waits */
}

void ws_bridge_end(struct ws_bridge *b)
{
	b->up_ends = true;
}

static void on_bytes(void *user, const void *data, size_t len)
{
	ws_bridge_push(user, data, len);
}

static void on_text(void *user, const char *text, size_t len)
{
	struct ws_bridge *b = user;
	json_t *message = NULL;

	if (!b->down_over &&
		(json_in_parse(text, len, &message, &b->err) < 0 ||
			b->ops->on_message(b, message, &b->err) < 0))
		fail(b, WEBSOCKET_UNSUPPORTED);
	json_decref(message);
}

/* 1 where something moved, 0, or a negative errno. */
static int move_up(struct ws_bridge *b)
{
	size_t n = MIN(link_stream_room(b->stream), b->up.len);
	int r;

	if (b->up_over) {
		buf_done(&b->up); /* nobody takes it */
		return 0;
	}
	if (b->up.len == 0 && b->up_ends) {
		b->up_over = true;
		return link_end(b->stream, NULL) < 0 ? -EPIPE : 1;
	}
	if (n == 0)
		return 0;
	r = link_send(b->stream, b->up.data, n, -1, -1, NULL);
	if (r == -ECANCELED) {
		b->up_over = true; /* its answer is there, or on its way */
		return 1;
	}
	buf_consume(&b->up, n);
	return r < 0 ? r : 1;
}

/* ---- down: from the guest ---- */

void ws_bridge_say(struct ws_bridge *b, json_t *message)
{
	_cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);

	json_decref(message);
	if (!text)
		abort(); /* out of memory */
	websocket_send_text(b->peer.ws, text, strlen(text));
}

static void take_event(struct ws_bridge *b, const struct link_event *ev)
{
	if (ev->type == LINK_DATA)
		websocket_send_bytes(b->peer.ws, ev->data, ev->len);
	if (ev->type == LINK_END && b->ops->on_end)
		b->ops->on_end(b);
	if (ev->type != LINK_CLOSE)
		return;
	if (b->ops->on_close)
		b->ops->on_close(b, ev->json);
	b->down_over = true;
}

static int move_down(struct ws_bridge *b)
{
	struct link_event ev;
	int r;

	if (!ws_peer_idle(&b->peer))
		return 0;
	r = link_next(b->stream, &ev, 0, -1, &b->err);
	if (r == 0)
		return 0;
	if (r > 0) {
		take_event(b, &ev);
		link_event_done(b->stream, &ev);
		return 1;
	}
	if (r == -EPIPE)
		(void)sandbox_explain(b->sb, &b->err);
	fail(b, WEBSOCKET_INTERNAL);
	return 1;
}

/* ---- both ---- */

/* More is read when all that came before is with the guest. */
static bool wants_more(const struct ws_bridge *b)
{
	return b->up.len == 0;
}

static int wait_for_more(struct ws_bridge *b)
{
	struct pollfd p = {.fd = link_stream_fd(b->stream), .events = POLLIN};
	bool heeds = ws_peer_idle(&b->peer) || b->up.len;

	return ws_peer_wait(&b->peer, wants_more(b), &p, heeds ? 1 : 0, -1);
}

void ws_bridge_run(struct ws_bridge *b, int fd, const void *early, size_t len)
{
	int r = 0;

	ws_peer_begin(&b->peer, fd, early, len);
	while (r >= 0 && !b->down_over && !websocket_closing(b->peer.ws)) {
		int up, down;

		link_stream_clear(b->stream);
		down = move_down(b);
		up = move_up(b);
		r = ws_peer_turn(&b->peer, wants_more(b) ? WS_PEER_TURN_BYTES : 0);
		if (r == 0 && up == 0 && down == 0 && !b->down_over)
			r = wait_for_more(b);
	}
	if (r >= 0)
		ws_peer_finish(&b->peer, b->code, b->err.kind ? err_msg(&b->err) : "");
}

struct ws_bridge *ws_bridge_new(const struct http_req *req, const struct ws_bridge_ops *ops,
	struct sandbox *sb, struct link_stream *stream)
{
	static const struct websocket_ops peer_ops = {.on_text = on_text, .on_bytes = on_bytes};
	struct ws_bridge *b = xnew(struct ws_bridge);

	b->ops = ops;
	b->sb = sb;
	b->stream = stream;
	b->up = buf_init(LIMIT_WEBSOCKET_TEXT_BYTES + WS_PEER_TURN_BYTES);
	b->code = WEBSOCKET_NORMAL;
	ws_peer_init(&b->peer, req, &peer_ops, b);
	return b;
}

struct ws_bridge *ws_bridge_free(struct ws_bridge *b)
{
	if (!b)
		return NULL;
	link_stream_free(b->stream);
	sandbox_unref(b->sb);
	ws_peer_done(&b->peer);
	buf_done(&b->up);
	free(b);
	return NULL;
}
