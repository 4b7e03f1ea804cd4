/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: run to their end for one answer, or streamed. A client that goes away cancels its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/capture.h"
#include "http/command.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/relay.h"

enum {
	/* What the guest gets beyond the time limit, to kill and to answer. */
	GRACE_MS = 10000,
	USER_BYTES_MAX = 256,
};

static int read_stdin(const json_t *body, struct command *c, struct err *err)
{
	if (c->background)
		return json_in_bool(body, "stdin", &c->open_stdin, err);
	/* All of it fits the stream's window: it can be sent before any output is read. */
	return json_in_str(body, "stdin", LIMIT_STREAM_WINDOW - LIMIT_CONTROL_BYTES, &c->input,
		err);
}

int command_read(const json_t *body, struct command *ret, struct err *err)
{
	const char *cmd = "";
	int r;

	*ret = (struct command){0};
	r = json_in_bool(body, "background", &ret->background, err);
	if (!ret->background)
		ret->timeout_ms = DEFAULT_EXEC_TIMEOUT_MS;
	if (r == 0)
		r = json_in_str(body, "cmd", LIMIT_COMMAND_BYTES, &cmd, err);
	if (r == 0)
		r = json_in_str(body, "cwd", LIMIT_PATH_BYTES, &ret->cwd, err);
	if (r == 0)
		r = json_in_str(body, "user", USER_BYTES_MAX, &ret->user, err);
	if (r == 0)
		r = read_stdin(body, ret, err);
	if (r == 0)
		r = json_in_env(body, "env", &ret->env, err);
	if (r == 0)
		r = json_in_seconds(body, "timeout_seconds", LIMIT_TIMEOUT_MS, &ret->timeout_ms,
			err);
	if (r < 0)
		return r;
	if (!*cmd)
		return err_set(err, ERR_INVALID, -EINVAL,
			"cmd required: `cmd` is the command, a string");
	ret->cmd = cmd;
	return 0;
}

json_t *command_request(const struct command *c)
{
	json_t *argv = NULL;

	if (c->argv[0]) {
		argv = json_array();
		for (size_t i = 0; i < ARRAY_SIZE(c->argv) && c->argv[i]; i++)
			(void)json_array_append_new(argv, json_string(c->argv[i]));
	}
	return json_pack("{s:s, s:s*, s:o*, s:s*, s:s*, s:O*, s:b, s:I}", "op",
		c->background ? "process_start" : "exec", "cmd", c->cmd, "argv", argv, "cwd",
		c->cwd, "user", c->user, "env", c->env, "stdin", c->open_stdin || c->input,
		"timeout_ms", (json_int_t)c->timeout_ms);
}

int command_open(struct sandbox *sb, const struct command *c, int client_fd,
	struct link_stream **ret, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t deadline = clock_mono_ms() + GRACE_MS;
	json_t *request = command_request(c);
	int r;

	if (!request)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	r = sandbox_open(sb, request, &s, err);
	if (r == 0 && c->input) {
		r = link_send(s, c->input, strlen(c->input), deadline, client_fd, err);
		if (r == 0)
			r = link_end(s, err);
		if (r == -ECANCELED)
			r = 0; /* it ended without reading; its answer is there */
	}
	if (r < 0)
		return r == -EPIPE ? sandbox_explain(sb, err) : r;
	*ret = steal_ptr(&s);
	return 0;
}

int64_t command_deadline(const struct command *c)
{
	return clock_mono_ms() + c->timeout_ms + GRACE_MS;
}

int command_err_timeout(int64_t timeout_ms, struct err *err)
{
	return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "command timeout after %gs",
		(double)timeout_ms / 1000);
}

/* The facts of the guest's answer that clients get; others, or of a wrong type, are left out. */
json_t *command_exit_facts(const json_t *ok)
{
	static const char *const keys[] = {"exit_code", "signal", "duration_ms"};
	json_t *facts = json_pack("{s:i}", "exit_code", -1);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(ok, keys[i]);

		if (json_is_integer(v))
			(void)json_object_set(facts, keys[i], v);
	}
	return facts;
}

bool command_timed_out(const json_t *ok)
{
	return json_is_true(json_object_get(ok, "timed_out"));
}

json_t *command_answer(struct capture out[2], const json_t *ok)
{
	json_t *answer = command_exit_facts(ok);

	(void)json_object_set_new(answer, "stdout", capture_finish(&out[0]));
	(void)json_object_set_new(answer, "stderr", capture_finish(&out[1]));
	(void)json_object_set_new(answer, "timed_out", json_boolean(command_timed_out(ok)));
	(void)json_object_set_new(answer, "truncated", json_boolean(out[0].cut || out[1].cut));
	if (out[0].cut || out[1].cut)
		(void)json_object_set_new(answer, "output_bytes",
			json_pack("{s:I, s:I}", "stdout", (json_int_t)out[0].total, "stderr",
				(json_int_t)out[1].total));
	return answer;
}

/* Reads the stream to its end. 0 with the guest's answer, or an error. */
static int gather(struct link_stream *s, const struct command *c, int client_fd,
	struct capture out[2], json_t **ret_ok, struct err *err)
{
	int64_t deadline = command_deadline(c);

	for (;;) {
		struct link_event ev;
		bool over;
		int r = link_next(s, &ev, deadline, client_fd, err);

		if (r == 0)
			return command_err_timeout(c->timeout_ms, err);
		if (r < 0)
			return r;
		if (ev.type == LINK_DATA)
			capture_push(&out[ev.channel == LINK_CH_STDERR], ev.data, ev.len);
		over = ev.type == LINK_CLOSE;
		if (over)
			*ret_ok = json_incref(ev.json);
		link_event_done(s, &ev);
		if (over)
			return 0;
	}
}

void command_blame_request(int r, struct err *err)
{
	if (r == -EREMOTEIO && err->kind == ERR_FILE_NOT_FOUND)
		err->kind = ERR_INVALID;
}

int command_run(const struct http_req *req, struct sandbox *sb, const struct command *c,
	json_t **ret, json_t **ret_details, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	struct capture out[2] = {capture_init(req->limits->output_bytes),
		capture_init(req->limits->output_bytes)};
	json_t *ok = NULL;
	int r = command_open(sb, c, req->client_fd, &s, err);

	if (r == 0)
		r = gather(s, c, req->client_fd, out, &ok, err);
	if (r == 0 && command_timed_out(ok))
		r = command_err_timeout(c->timeout_ms, err);
	if (r == -EPIPE)
		r = sandbox_explain(sb, err);
	if (r == 0)
		*ret = command_answer(out, ok);
	else if (r == -ETIMEDOUT || r == -EPIPE)
		*ret_details = command_answer(out, ok);
	else
		command_blame_request(r, err);
	json_decref(ok);
	capture_done(&out[0]);
	capture_done(&out[1]);
	return r;
}

int h_exec(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct command c;
	json_t *answer = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = command_read(req->body, &c, err);
	if (r == 0 && c.background)
		return process_start(req, resp, sb, &c, err);
	if (r == 0)
		r = command_run(req, sb, &c, &answer, &resp->details, err);
	return r < 0 ? r : http_resp_json(resp, 200, answer, err);
}

static int on_close(struct relay *relay, const json_t *ok, struct err *err)
{
	if (command_timed_out(ok))
		return command_err_timeout(relay->timeout_ms, err);
	return relay_emit(relay, "exit", command_exit_facts(ok), err);
}

int h_exec_stream(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct relay_ops ops = {.on_close = on_close};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct link_stream *s = NULL;
	struct command c;
	struct relay *relay;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = command_read(req->body, &c, err);
	if (r == 0 && c.background)
		r = err_set(err, ERR_INVALID, -EINVAL,
			"`background` is for POST .../exec; its output comes by GET "
			".../processes/ID/stream");
	if (r == 0)
		r = command_open(sb, &c, req->client_fd, &s, err);
	if (r < 0)
		return r;
	relay_start(req, resp, &ops, steal_ptr(&sb), s, &relay);
	relay->timeout_ms = c.timeout_ms;
	relay->deadline_ms = command_deadline(&c);
	return 0;
}
