/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/exec/ws: many commands at once over one WebSocket, in text messages. */
/*
 * The client sends {"id","cmd",…}, with the members of POST …/exec, and {"id","cancel":true}. It gets {"id","stream","data"} as
 * output comes, then {"id","exit":N} with `signal` and `duration_ms`, or {"id","error","code"}; the id is free again then.
 * A message that is none is answered by an error without an id. When the client goes away, all that run are cancelled.
 *
 * Output is taken from the guest when all that was taken before has been sent, from one command after the other.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/command.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/utf8_stream.h"
#include "http/ws_handshake.h"
#include "http/ws_peer.h"

enum {
	ID_BYTES_MAX = 128,
	/* A message may be answered by an error that is longer. */
	TURN_BYTES = 4096,
};

/* One that runs. */
struct running {
	json_t *id;                 /* owned reference; NULL: a free place */
	struct link_stream *stream; /* owned */
	int64_t timeout_ms;
	int64_t deadline_ms;
	struct utf8_stream text[2]; /* of stdout, stderr */
};

struct exec_ws {
	struct sandbox *sb; /* owned reference */
	struct ws_peer peer;
	struct running all[LIMIT_WEBSOCKET_COMMANDS];
	size_t next; /* whose turn it is */
};

/* ---- what the client is told ---- */

/* Takes the reference. */
static void say(struct exec_ws *x, json_t *message)
{
	_cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);

	json_decref(message);
	if (!text)
		abort(); /* out of memory */
	websocket_send_text(x->peer.ws, text, strlen(text));
}

static void say_error(struct exec_ws *x, json_t *id, const struct err *err)
{
	say(x,
		json_pack("{s:O*, s:s, s:s}", "id", id, "error", err_msg(err), "code",
			err_code(err->kind)));
}

static void say_output(struct exec_ws *x, struct running *c, enum link_channel channel,
	const void *data, size_t len)
{
	bool is_err = channel == LINK_CH_STDERR;
	_cleanup_buf_ struct buf text = buf_init(UTF8_STREAM_MAX(LIMIT_FRAME_BYTES));
	int r = data ? utf8_stream_push(&c->text[is_err], data, len, &text)
		     : utf8_stream_end(&c->text[is_err], &text);

	if (r < 0)
		abort(); /* out of memory */
	if (text.len)
		say(x,
			json_pack("{s:O, s:s, s:o}", "id", c->id, "stream",
				is_err ? "stderr" : "stdout", "data",
				json_stringn(text.data, text.len)));
}

static void say_exit(struct exec_ws *x, struct running *c, const json_t *ok)
{
	json_t *facts;
	struct err err;

	for (int ch = LINK_CH_STDOUT; ch <= LINK_CH_STDERR; ch++)
		say_output(x, c, (enum link_channel)ch, NULL, 0);
	if (command_timed_out(ok)) {
		(void)command_err_timeout(c->timeout_ms, &err);
		say_error(x, c->id, &err);
		return;
	}
	facts = command_exit_facts(ok);
	(void)json_object_set_new(facts, "id", json_incref(c->id));
	(void)json_object_set(facts, "exit", json_object_get(facts, "exit_code"));
	(void)json_object_del(facts, "exit_code");
	say(x, facts);
}

/* ---- what the guest sends ---- */

static void running_done(struct running *c)
{
	link_stream_free(c->stream);
	json_decref(c->id);
	*c = (struct running){0};
}

static void running_failed(struct exec_ws *x, struct running *c, int r, struct err *err)
{
	if (r == -EPIPE)
		(void)sandbox_explain(x->sb, err);
	command_blame_request(r, err);
	say_error(x, c->id, err);
	running_done(c);
}

/* Tells the next that this command has to say. False where there is nothing. */
static bool relay(struct exec_ws *x, struct running *c)
{
	struct link_event ev;
	struct err err;
	bool over;
	int r;

	link_stream_clear(c->stream);
	r = link_next(c->stream, &ev, 0, -1, &err);
	if (r == 0 && clock_mono_ms() < c->deadline_ms)
		return false;
	if (r == 0)
		r = command_err_timeout(c->timeout_ms, &err);
	if (r < 0) {
		running_failed(x, c, r, &err);
		return true;
	}
	if (ev.type == LINK_DATA)
		say_output(x, c, ev.channel, ev.data, ev.len);
	over = ev.type == LINK_CLOSE;
	if (over)
		say_exit(x, c, ev.json);
	link_event_done(c->stream, &ev);
	if (over)
		running_done(c);
	return true;
}

/* The same for the first that has something, behind the one that was last. */
static bool relay_one(struct exec_ws *x)
{
	for (size_t i = 0; i < ARRAY_SIZE(x->all); i++) {
		struct running *c = &x->all[x->next];

		x->next = (x->next + 1) % ARRAY_SIZE(x->all);
		if (c->id && relay(x, c))
			return true;
	}
	return false;
}

/* ---- what the client wants ---- */

static struct running *find(struct exec_ws *x, const json_t *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(x->all); i++) {
		if (id ? json_equal(x->all[i].id, id) : !x->all[i].id)
			return &x->all[i];
	}
	return NULL;
}

static int begin(struct exec_ws *x, json_t *id, const json_t *message, struct err *err)
{
	struct running *c = find(x, NULL);
	struct command command;
	int r;

	if (find(x, id))
		return err_set(err, ERR_CONFLICT, -EEXIST,
			"a command with this `id` still runs; give each its own");
	if (!c)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"%d commands run on this connection already; wait for one of them, or open "
			"another",
			LIMIT_WEBSOCKET_COMMANDS);
	r = command_read(message, &command, err);
	if (r == 0 && command.background)
		r = err_set(err, ERR_INVALID, -EINVAL, "`background` is for POST .../exec");
	if (r == 0)
		r = command_open(x->sb, &command, x->peer.fd, &c->stream, err);
	if (r < 0)
		return r;
	c->id = json_incref(id);
	c->timeout_ms = command.timeout_ms;
	c->deadline_ms = command_deadline(&command);
	return 0;
}

static int cancel(struct exec_ws *x, const json_t *id, struct err *err)
{
	const struct running *c = find(x, id);

	if (!c)
		return err_set(err, ERR_PROCESS_NOT_FOUND, -ENOENT,
			"no command with this `id` runs; it may have ended");
	link_cancel(c->stream);
	return 0;
}

static int take(struct exec_ws *x, json_t *id, const json_t *message, struct err *err)
{
	bool cancels = false;
	int r = json_in_bool(message, "cancel", &cancels, err);

	if (r < 0)
		return r;
	return cancels ? cancel(x, id, err) : begin(x, id, message, err);
}

static bool is_id(const json_t *id)
{
	size_t len = json_string_length(id);

	return json_is_integer(id) || (json_is_string(id) && len > 0 && len <= ID_BYTES_MAX);
}

static void on_text(void *user, const char *text, size_t len)
{
	struct exec_ws *x = user;
	json_t *message = NULL, *id = NULL;
	struct err err;
	int r = json_in_parse(text, len, &message, &err);

	if (r == 0) {
		id = json_object_get(message, "id");
		if (is_id(id))
			r = take(x, id, message, &err);
		else
			r = err_set(&err, ERR_INVALID, -EINVAL,
				"`id` must be a text of up to %d bytes or a number", ID_BYTES_MAX);
	}
	if (r < 0)
		say_error(x, is_id(id) ? id : NULL, &err);
	json_decref(message);
}

/* ---- the connection ---- */

/* Commands are listened to when the client can take more. */
static int wait_for_more(struct exec_ws *x)
{
	struct pollfd fds[LIMIT_WEBSOCKET_COMMANDS];
	int64_t deadline = -1;
	nfds_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(x->all) && ws_peer_idle(&x->peer); i++) {
		const struct running *c = &x->all[i];

		if (!c->id)
			continue;
		fds[n++] = (struct pollfd){.fd = link_stream_fd(c->stream), .events = POLLIN};
		if (deadline < 0 || c->deadline_ms < deadline)
			deadline = c->deadline_ms;
	}
	return ws_peer_wait(&x->peer, true, fds, n, deadline);
}

static void run(void *user, int fd, const void *early, size_t len)
{
	struct exec_ws *x = user;
	int r = 0;

	ws_peer_begin(&x->peer, fd, early, len);
	while (r >= 0 && !websocket_closing(x->peer.ws)) {
		bool moved = ws_peer_idle(&x->peer) && relay_one(x);

		r = ws_peer_turn(&x->peer, TURN_BYTES);
		if (r == 0 && !moved)
			r = wait_for_more(x);
	}
	if (r >= 0)
		ws_peer_finish(&x->peer, WEBSOCKET_NORMAL, "");
}

static void exec_ws_free(void *user)
{
	struct exec_ws *x = user;

	for (size_t i = 0; i < ARRAY_SIZE(x->all); i++)
		running_done(&x->all[i]);
	ws_peer_done(&x->peer);
	sandbox_unref(x->sb);
	free(x);
}

int h_exec_ws(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct http_upgrade upgrade = {.run = run,
		.free = exec_ws_free,
		.says_goodbye = true};
	static const struct websocket_ops ops = {.on_text = on_text};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct exec_ws *x;
	int r = ws_handshake_check(req, err);

	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r < 0)
		return r;
	x = xnew(struct exec_ws);
	x->sb = steal_ptr(&sb);
	ws_peer_init(&x->peer, req, &ops, x);
	return ws_handshake_answer(req, resp, &upgrade, x);
}
