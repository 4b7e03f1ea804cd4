/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/exec/pty and …/ssh: a command, or a shell, on a terminal, over a WebSocket. */
/*
 * Binary messages are the terminal's bytes. A client's text messages are {"resize":{"rows":N,"cols":N}}, or as the public docs have it
 * {"type":"resize","rows":N,"cols":N}, and {"stdin":"…"}. At the end of the command exec/pty says {"exit":N}, with `signal`
 * where one ended it, in the docs' form at once; ssh says nothing, for the public command line would show it. Then we close.
 * A client that goes away ends the command.
 */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "http/command.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/ws_bridge.h"
#include "http/ws_handshake.h"

enum {
	DEFAULT_ROWS = 24,
	DEFAULT_COLS = 80,
	USER_BYTES_MAX = 256,
};

struct terminal {
	const char *cmd; /* NULL: a login shell */
	const char *cwd;
	const char *user;
	int64_t rows, cols;
};

/* ---- what the client says ---- */

static int resize(struct ws_bridge *b, const json_t *size, struct err *err)
{
	int64_t rows = 0, cols = 0;
	int r = json_in_int(size, "rows", 1, LIMIT_TERMINAL_CELLS, &rows, err);

	if (r == 0)
		r = json_in_int(size, "cols", 1, LIMIT_TERMINAL_CELLS, &cols, err);
	if (r < 0)
		return r;
	if (!rows || !cols)
		return err_set(err, ERR_INVALID, -EINVAL, "a resize has `rows` and `cols`");
	/* A guest that does not take it keeps its size. */
	(void)link_control(b->stream,
		json_pack("{s:{s:I, s:I}}", "resize", "rows", (json_int_t)rows, "cols",
			(json_int_t)cols),
		NULL);
	return 0;
}

static int on_message(struct ws_bridge *b, const json_t *message, struct err *err)
{
	const json_t *size = json_object_get(message, "resize");
	const json_t *input = json_object_get(message, "stdin");
	const char *type = json_string_value(json_object_get(message, "type"));

	if (json_is_string(input)) {
		ws_bridge_push(b, json_string_value(input), json_string_length(input));
		return 0;
	}
	if (!size && type && strcmp(type, "resize") == 0)
		size = message;
	if (!json_is_object(size))
		return err_set(err, ERR_INVALID, -EINVAL,
			"text must be {\"resize\":{\"rows\":24,\"cols\":80}} or {\"stdin\":\"ls\\n\"}; "
			"send bytes as binary messages");
	return resize(b, size, err);
}

/* ---- the end ---- */

static void tell_exit(struct ws_bridge *b, const json_t *ok)
{
	json_t *facts = command_exit_facts(ok), *code = json_object_get(facts, "exit_code");

	ws_bridge_say(b,
		json_pack("{s:O, s:s, s:O, s:O*}", "exit", code, "type", "exit", "code", code,
			"signal", json_object_get(facts, "signal")));
	json_decref(facts);
}

static void run(void *user, int fd, const void *early, size_t len)
{
	ws_bridge_run(user, fd, early, len);
}

static void bridge_free(void *user)
{
	ws_bridge_free(user);
}

/* ---- the beginning ---- */

static int query_text(const struct http_req *req, const char *key, size_t max, const char **ret,
	struct err *err)
{
	*ret = url_query(&req->url, key);
	if (*ret && strlen(*ret) > max)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE, "`%s` is too long: at most %zu bytes",
			key, max);
	if (*ret && !**ret)
		*ret = NULL;
	return 0;
}

static int read_size(const struct http_req *req, struct terminal *t, struct err *err)
{
	int r = url_query_int(&req->url, "rows", 1, LIMIT_TERMINAL_CELLS, &t->rows, err);

	return r < 0 ? r : url_query_int(&req->url, "cols", 1, LIMIT_TERMINAL_CELLS, &t->cols, err);
}

static int start(struct http_req *req, struct http_resp *resp, const struct ws_bridge_ops *ops,
	const struct terminal *t, struct err *err)
{
	static const struct http_upgrade upgrade = {.run = run,
		.free = bridge_free,
		.says_goodbye = true};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_stream_ struct link_stream *stream = NULL;
	struct ws_bridge *b;
	int r = http_req_sandbox(req, &sb, err);

	/* Behind all else: a client that its WebSocket does not tell why it was refused asks once more, without one. */
	if (r == 0)
		r = ws_handshake_check(req, err);
	if (r == 0)
		r = sandbox_open(sb,
			json_pack("{s:s, s:s*, s:s*, s:s*, s:{s:I, s:I}}", "op", "exec", "cmd",
				t->cmd, "cwd", t->cwd, "user", t->user, "pty", "rows",
				(json_int_t)t->rows, "cols", (json_int_t)t->cols),
			&stream, err);
	if (r < 0)
		return r;
	b = ws_bridge_new(req, ops, steal_ptr(&sb), steal_ptr(&stream));
	return ws_handshake_answer(req, resp, &upgrade, b);
}

int h_exec_pty(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct ws_bridge_ops ops = {.on_message = on_message, .on_close = tell_exit};
	struct terminal t = {.rows = DEFAULT_ROWS, .cols = DEFAULT_COLS};
	int r = read_size(req, &t, err);

	if (r == 0)
		r = query_text(req, "cmd", LIMIT_COMMAND_BYTES, &t.cmd, err);
	if (r == 0)
		r = query_text(req, "cwd", LIMIT_PATH_BYTES, &t.cwd, err);
	if (r == 0)
		r = query_text(req, "user", USER_BYTES_MAX, &t.user, err);
	return r < 0 ? r : start(req, resp, &ops, &t, err);
}

int h_ssh(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct ws_bridge_ops ops = {.on_message = on_message};
	struct terminal t = {.rows = DEFAULT_ROWS, .cols = DEFAULT_COLS};
	int r = read_size(req, &t, err);

	return r < 0 ? r : start(req, resp, &ops, &t, err);
}
