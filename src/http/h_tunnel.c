/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/ports/{port}/tunnel: a TCP connection to a server in a sandbox, over a WebSocket. */
/*
 * Binary messages are the connection's bytes. {"eof":true}, in either direction, says that this direction has ended. A client that
 * closes with a normal code has said all that it wanted to; one that is just gone resets the connection, for the server
 * must not take a part for the whole.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/parse.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/upstream.h"
#include "http/ws_bridge.h"
#include "http/ws_handshake.h"

enum {
	CONNECT_MS = 15 * 1000, /* the agent gives up before */
	LINGER_MS = 10 * 1000,  /* for a server to take what a client that has closed had said */
};

static int on_message(struct ws_bridge *b, const json_t *message, struct err *err)
{
	bool eof = false;
	int r = json_in_bool(message, "eof", &eof, err);

	if (r < 0)
		return r;
	if (!eof)
		return err_set(err, ERR_INVALID, -EINVAL,
			"send bytes as binary messages, and {\"eof\":true} at their end");
	ws_bridge_end(b);
	return 0;
}

static void on_end(struct ws_bridge *b)
{
	ws_bridge_say(b, json_pack("{s:b}", "eof", 1));
}

static const struct ws_bridge_ops ops = {.on_message = on_message, .on_end = on_end};

/* The client has closed: the server still gets all of what it said, and its end. */
static void settle(struct ws_bridge *b)
{
	int64_t deadline = clock_mono_ms() + LINGER_MS;
	struct link_event ev;

	if (!b->up_over &&
		(link_send(b->stream, b->up.data, b->up.len, deadline, -1, NULL) < 0 ||
			link_end(b->stream, NULL) < 0))
		return;
	while (link_next(b->stream, &ev, deadline, -1, NULL) > 0) {
		bool over = ev.type == LINK_CLOSE;

		link_event_done(b->stream, &ev);
		if (over)
			return;
	}
}

static void run(void *user, int fd, const void *early, size_t len)
{
	struct ws_bridge *b = user;

	ws_bridge_run(b, fd, early, len);
	switch (websocket_peer_code(b->peer.ws)) {
	case WEBSOCKET_NORMAL:
	case WEBSOCKET_NO_CODE:
		if (!b->down_over)
			settle(b);
		break;
	default:
		break;
	}
}

static void bridge_free(void *user)
{
	ws_bridge_free(user);
}

static int wait_connected(struct sandbox *sb, struct link_stream *stream, uint64_t port,
	int client_fd, struct err *err)
{
	int64_t deadline = clock_mono_ms() + CONNECT_MS;

	for (;;) {
		struct link_event ev;
		bool connected;
		int r = link_next(stream, &ev, deadline, client_fd, err);

		if (r == 0)
			return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
				"upstream: timeout: port %u takes no connection",
				(unsigned int)port);
		if (r < 0)
			return upstream_explain(sb, r, err);
		connected = ev.type == LINK_EVENT;
		link_event_done(stream, &ev);
		if (connected)
			return 0;
	}
}

int h_tunnel(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct http_upgrade upgrade = {.run = run,
		.free = bridge_free,
		.says_goodbye = true};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_stream_ struct link_stream *stream = NULL;
	struct ws_bridge *b;
	uint64_t port;
	int r;

	if (parse_u64(req->params[1], 1, UINT16_MAX, &port) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "a port is a number between 1 and 65535");
	r = ws_handshake_check(req, err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r == 0)
		r = sandbox_open(sb, json_pack("{s:s, s:i}", "op", "connect", "port", (int)port),
			&stream, err);
	if (r == 0)
		r = wait_connected(sb, stream, port, req->client_fd, err);
	if (r < 0)
		return r;
	b = ws_bridge_new(req, &ops, steal_ptr(&sb), steal_ptr(&stream));
	return ws_handshake_answer(req, resp, &upgrade, b);
}
