/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code: sessions (a kernel each), cells run in them, and one-shot runs.
 *
 * The guest knows a session by an id that we choose. It is a UUID of version 7, whose first 48 bits
 * are the time of its making: so `created_at` needs no table here, and survives a restart of the
 * daemon. A one-shot run makes a session of its own for as long as it takes; its id is no UUID, and
 * lists leave it out.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/cell.h"
#include "http/cell_run.h"
#include "http/command.h"
#include "http/event_body.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/relay.h"
#include "http/session_id.h"

enum {
	CALL_TIMEOUT_MS = 60000, /* of requests that make or end a kernel */
	LANGUAGE_BYTES_MAX = 64,
	/* Published clients wait for 30 s by themselves, and the default limit must answer before.
	 */
	ANSWER_MARGIN_MS = 500,
};

/* One-shot runs in a process, told its code as an argument: of scripts, whose exit status counts, and where the template
 * has no kernel. */
static const struct program {
	const char *name;
	const char *program;
	const char *option;
	bool always;
} programs[] = {
	{"python", "python3", "-c"},
	{"javascript", "node", "-e"},
	{"bash", "bash", "-c", .always = true},
};

static const struct {
	const char *alias;
	const char *name;
} aliases[] = {
	{"python", "python"},
	{"py", "python"},
	{"python3", "python"},
	{"javascript", "javascript"},
	{"js", "javascript"},
	{"node", "javascript"},
	{"bash", "bash"},
	{"sh", "bash"},
	{"shell", "bash"},
};

int cell_language(const json_t *body, const char **ret, struct err *err)
{
	int r = json_in_str(body, "language", LANGUAGE_BYTES_MAX, ret, err);

	/* Some clients send what the user typed. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(aliases); i++) {
		if (strcasecmp(*ret, aliases[i].alias) == 0)
			*ret = aliases[i].name;
	}
	return r;
}

static int read_code(const json_t *body, struct cell_request *ret, struct err *err)
{
	int r;

	*ret = (struct cell_request){.timeout_ms = DEFAULT_CELL_TIMEOUT_MS};
	r = json_in_str(body, "code", LIMIT_CODE_BYTES, &ret->code, err);
	if (r == 0)
		r = json_in_int(body, "timeout_ms", 1, LIMIT_TIMEOUT_MS, &ret->timeout_ms, err);
	if (r == 0)
		r = json_in_bool(body, "ansi", &ret->ansi, err);
	if (r == 0)
		r = json_in_bool(body, "allow_stdin", &ret->allow_stdin, err);
	if (r == 0)
		r = json_in_bool(body, "detach", &ret->detach, err);
	if (r == 0)
		r = json_in_env(body, "env", &ret->env, err);
	if (r < 0)
		return r;
	if (!ret->code)
		return err_set(err, ERR_INVALID, -EINVAL, "code required: `code` is a string");
	ret->code_len = strlen(ret->code);
	return 0;
}

/* ---- cells ---- */

int cell_open(struct sandbox *sb, const struct cell_request *c, int client_fd,
	struct link_stream **ret, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t margin = c->timeout_ms == DEFAULT_CELL_TIMEOUT_MS ? ANSWER_MARGIN_MS : 0;
	int r = sandbox_open(sb,
		json_pack("{s:s, s:s, s:I, s:b, s:b, s:b, s:O*}", "op", "session_run", "session",
			c->session, "timeout_ms", (json_int_t)(c->timeout_ms - margin), "ansi",
			c->ansi, "allow_stdin", c->allow_stdin, "detach", c->detach, "env", c->env),
		&s, err);

	/* A cell that waits for its turn may wait for long, and so does its code. */
	if (r == 0)
		r = link_send(s, c->code, c->code_len, -1, client_fd, err);
	if (r == 0)
		r = link_end(s, err);
	if (r == -ECANCELED && s)
		r = 0; /* refused; the reason is the answer */
	if (r < 0)
		return r == -EPIPE ? sandbox_explain(sb, err) : r;
	*ret = steal_ptr(&s);
	return 0;
}

/* The guest keeps the time; it may begin late, after other cells of the session. */
static int gather(struct link_stream *s, int client_fd, struct cell *cell, json_t **ret_ok,
	struct err *err)
{
	CLEANUP(event_body_done) struct event_body body = event_body_init();

	for (;;) {
		struct link_event ev;
		bool over;
		int r = link_next(s, &ev, -1, client_fd, err);

		if (r < 0)
			return r;
		if (ev.type == LINK_DATA && ev.channel == LINK_CH_BODY) {
			event_body_push(&body, ev.data, ev.len);
		} else if (ev.type == LINK_DATA) {
			cell_output(cell, ev.channel == LINK_CH_STDERR, ev.data, ev.len);
		} else if (ev.type == LINK_EVENT) {
			event_body_merge(&body, ev.json);
			cell_event(cell, ev.json);
		}
		over = ev.type == LINK_CLOSE;
		if (over)
			*ret_ok = json_incref(ev.json);
		link_event_done(s, &ev);
		if (over)
			return 0;
	}
}

static int err_timeout(int64_t timeout_ms, struct err *err)
{
	return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "cell timeout after %gs",
		(double)timeout_ms / 1000);
}

static bool is_timeout(const json_t *ok)
{
	return strcmp(cell_status(ok), "timeout") == 0;
}

/* As command_run(). */
static int run_cell(const struct http_req *req, struct sandbox *sb, const struct cell_request *c,
	json_t **ret, json_t **ret_details, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	struct cell cell;
	json_t *ok = NULL;
	int r = cell_open(sb, c, req->client_fd, &s, err);

	cell_init(&cell, req->limits);
	if (r == 0)
		r = gather(s, req->client_fd, &cell, &ok, err);
	if (r == -EPIPE)
		r = sandbox_explain(sb, err);
	if (r == 0 && is_timeout(ok)) {
		r = err_timeout(c->timeout_ms, err);
		*ret_details = cell_answer(&cell, ok);
	} else if (r == 0) {
		*ret = cell_answer(&cell, ok);
	}
	json_decref(ok);
	cell_done(&cell);
	return r;
}

static int relay_result(struct relay *relay, const json_t *event, struct err *err)
{
	static const char *const flags[] = {"update", "is_main_result"};
	json_t *id = json_object_get(event, "display_id"),
	       *meta = json_object_get(event, "metadata");
	json_t *data = json_pack("{s:o}", "data", cell_bundle(json_object_get(event, "data")));

	if (json_is_string(id))
		(void)json_object_set(data, "display_id", id);
	if (json_object_size(meta) > 0)
		(void)json_object_set(data, "metadata", meta);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (json_is_true(json_object_get(event, flags[i])))
			(void)json_object_set_new(data, flags[i], json_true());
	}
	return relay_emit(relay, "result", data, err);
}

static int relay_input_request(struct relay *relay, const json_t *event, struct err *err)
{
	const char *prompt = json_string_value(json_object_get(event, "prompt"));
	int password = json_is_true(json_object_get(event, "password"));

	return relay_emit(relay, "input_request",
		json_pack("{s:s, s:b}", "prompt", prompt ? prompt : "", "password", password), err);
}

static int on_event(struct relay *relay, const json_t *event, struct err *err)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	int wait = json_is_true(json_object_get(event, "wait"));

	if (!type)
		return 0;
	if (strcmp(type, "result") == 0)
		return relay_result(relay, event, err);
	if (strcmp(type, "clear_output") == 0)
		return relay_emit(relay, type, json_pack("{s:b}", "wait", wait), err);
	if (strcmp(type, "error") == 0)
		return relay_emit(relay, type, cell_error(event, NULL), err);
	if (strcmp(type, "input_request") == 0)
		return relay_input_request(relay, event, err);
	if (strcmp(type, "dropped") == 0)
		return relay_emit(relay, "truncated", json_object(), err);
	return 0;
}

/* A cell that failed told its error as an event, unless its end came too suddenly. */
static int on_close(struct relay *relay, const json_t *ok, struct err *err)
{
	const char *status = cell_status(ok);
	json_t *error = NULL;
	int r = 0;

	if (is_timeout(ok)) {
		(void)err_timeout(relay->timeout_ms, err);
		error = cell_facts(ok);
		(void)json_object_set_new(error, "error", json_string(err_msg(err)));
		(void)json_object_set_new(error, "code", json_string(err_code(err->kind)));
	} else if (strcmp(status, "ok") != 0 && strcmp(status, "error") != 0) {
		error = cell_error(NULL, ok);
	}
	if (error)
		r = relay_emit(relay, "error", error, err);
	return r < 0 ? r : relay_emit(relay, "exit", cell_facts(ok), err);
}

static int stream_cell(struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const struct cell_request *c, struct err *err)
{
	static const struct relay_ops ops = {.on_event = on_event, .on_close = on_close};
	struct link_stream *s;
	struct relay *relay;
	int r = cell_open(sb, c, req->client_fd, &s, err);

	if (r < 0)
		return r;
	relay_start(req, resp, &ops, sandbox_ref(sb), s, &relay);
	relay->timeout_ms = c->timeout_ms;
	return 0;
}

static int wants_stream(const struct http_req *req, bool *ret, struct err *err)
{
	const char *accept = http_req_header(req, "Accept");

	*ret = accept && strstr(accept, "text/event-stream");
	return json_in_bool(req->body, "stream", ret, err);
}

int h_session_run(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct cell_request c;
	json_t *answer = NULL;
	bool stream;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = read_code(req->body, &c, err);
	if (r == 0)
		r = wants_stream(req, &stream, err);
	if (r < 0)
		return r;
	c.session = req->params[1];
	if (stream)
		return stream_cell(req, resp, sb, &c, err);
	if (c.allow_stdin)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`allow_stdin` needs `stream`: the question comes as an event");
	r = run_cell(req, sb, &c, &answer, &resp->details, err);
	return r < 0 ? r : http_resp_json(resp, 200, answer, err);
}

/* ---- sessions ---- */

int cell_session(struct sandbox *sb, const char *id, const char *language, const json_t *body,
	int client_fd, struct err *err)
{
	const char *cwd = NULL;
	json_t *env = NULL;
	int r = json_in_str(body, "cwd", LIMIT_PATH_BYTES, &cwd, err);

	if (r == 0)
		r = json_in_env(body, "env", &env, err);
	if (r < 0)
		return r;
	return sandbox_call(sb,
		json_pack("{s:s, s:s, s:s, s:s*, s:O*}", "op", "session_create", "session", id,
			"language", language, "cwd", cwd, "env", env),
		CALL_TIMEOUT_MS, client_fd, NULL, err);
}

static json_t *session_json(const struct sandbox *sb, const char *id, const char *language)
{
	char created[CLOCK_TEXT_SIZE];
	int64_t ms = 0;

	(void)session_id_time(id, &ms); /* the caller knows that it is one */
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", id, "session_id", id, "sandbox_id",
		sandbox_id(sb), "language", language, "created_at",
		clock_format_rfc3339(created, ms));
}

int h_session_create(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *language = "python";
	char id[SESSION_ID_SIZE];
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = cell_language(req->body, &language, err);
	if (r < 0)
		return r;
	session_id_make(id);
	r = cell_session(sb, id, language, req->body, req->client_fd, err);
	if (r < 0 && err->kind == ERR_UNSUPPORTED)
		err->kind = ERR_INVALID; /* of this sandbox, not of the server */
	return r < 0 ? r : http_resp_json(resp, 201, session_json(sb, id, language), err);
}

/* One entry of the guest's list, or NULL for one that is not ours to show. */
static json_t *listed_session(const struct sandbox *sb, const json_t *entry)
{
	const char *id = json_string_value(json_object_get(entry, "session"));
	const char *language = json_string_value(json_object_get(entry, "language"));
	json_t *cells = json_object_get(entry, "cells"), *session;
	int64_t ms;

	if (!id || !language || session_id_time(id, &ms) < 0)
		return NULL;
	session = session_json(sb, id, language);
	(void)json_object_set_new(session, "cells",
		json_is_integer(cells) ? json_incref(cells) : json_integer(0));
	(void)json_object_set_new(session, "running",
		json_boolean(json_is_true(json_object_get(entry, "running"))));
	return session;
}

int h_session_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	json_t *ok = NULL, *list, *entry;
	size_t i;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s}", "op", "session_list"), CALL_TIMEOUT_MS,
			req->client_fd, &ok, err);
	if (r < 0)
		return r;
	list = json_array();
	json_array_foreach(json_object_get(ok, "sessions"), i, entry) {
		json_t *session = listed_session(sb, entry);

		if (session)
			(void)json_array_append_new(list, session);
	}
	json_decref(ok);
	return http_resp_json(resp, 200, list, err);
}

static int call_session(struct http_req *req, const char *op, json_t **ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r < 0)
		return r;
	return sandbox_call(sb, json_pack("{s:s, s:s}", "op", op, "session", req->params[1]),
		CALL_TIMEOUT_MS, req->client_fd, ret, err);
}

int h_session_delete(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = call_session(req, "session_delete", NULL, err);

	return r < 0 ? r : http_resp_empty(resp, 204);
}

int h_session_interrupt(struct http_req *req, struct http_resp *resp, struct err *err)
{
	json_t *ok = NULL;
	int r = call_session(req, "session_interrupt", &ok, err);
	bool running = json_is_true(json_object_get(ok, "running"));

	json_decref(ok);
	return r < 0 ? r
		     : http_resp_json(resp, 200, json_pack("{s:b}", "interrupted", running), err);
}

int h_session_input(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *value = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = json_in_str(req->body, "value", LIMIT_INPUT_BYTES, &value, err);
	if (r == 0 && !value)
		r = err_set(err, ERR_INVALID, -EINVAL, "value required: `value` is a string");
	if (r == 0)
		r = sandbox_call(sb,
			json_pack("{s:s, s:s, s:s}", "op", "session_input", "session",
				req->params[1], "value", value),
			CALL_TIMEOUT_MS, req->client_fd, NULL, err);
	return r < 0 ? r : http_resp_empty(resp, 204);
}

int h_session_restart(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = call_session(req, "session_restart", NULL, err);

	return r < 0 ? r
		     : http_resp_json(resp, 200, json_pack("{s:b}", "kernel_restarted", 1), err);
}

/* ---- one-shot ---- */

int h_repl_languages(struct http_req *req, struct http_resp *resp, struct err *err)
{
	json_t *names = json_object(), *list, *value;
	struct template **all;
	const char *name;
	size_t n;
	int r = template_list(core_templates(req->core), &all, &n, err);

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		(void)json_object_set_new(names, programs[i].name, json_true());
	for (size_t i = 0; r == 0 && i < n; i++) {
		json_t *languages = all[i]->languages;
		size_t k;

		json_array_foreach(languages, k, value)
			(void)json_object_set_new(names, json_string_value(value), json_true());
		template_free(all[i]);
	}
	if (r < 0) {
		json_decref(names);
		return r;
	}
	free(all);
	list = json_array();
	json_object_foreach(names, name, value)
		(void)json_array_append_new(list, json_string(name));
	json_decref(names);
	return http_resp_json(resp, 200, list, err);
}

static const struct program *find_program(const char *language)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		if (strcmp(language, programs[i].name) == 0)
			return &programs[i];
	}
	return NULL;
}

/* A process of its own. */
static int run_program(struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const struct program *program, const struct cell_request *c, json_t **ret, struct err *err)
{
	struct command command = {
		.argv = {program->program, program->option, c->code},
		.env = c->env,
		.timeout_ms = c->timeout_ms,
	};
	int r = json_in_str(req->body, "cwd", LIMIT_PATH_BYTES, &command.cwd, err);

	if (r < 0)
		return r;
	if (c->code_len > LIMIT_COMMAND_BYTES)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"`code` in this language may have %zu KiB at most: write it to a file and "
			"run that",
			LIMIT_COMMAND_BYTES >> 10);
	return command_run(req, sb, &command, ret, &resp->details, err);
}

/* A kernel for one cell. */
static int run_kernel(struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const char *language, struct cell_request *c, json_t **ret, struct err *err)
{
	static const char lead[] = "once-";
	char id[SESSION_ID_SIZE + sizeof(lead)];
	int r;

	memcpy(id, lead, sizeof(lead));
	session_id_make(id + strlen(lead));
	r = cell_session(sb, id, language, req->body, req->client_fd, err);
	if (r < 0)
		return r;
	c->session = id;
	r = run_cell(req, sb, c, ret, &resp->details, err);
	/* When it fails the sandbox is gone, and the session with it. */
	(void)sandbox_call(sb, json_pack("{s:s, s:s}", "op", "session_delete", "session", id),
		CALL_TIMEOUT_MS, -1, NULL, NULL);
	c->session = NULL; /* it was ours */
	return r;
}

int h_repl(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *language = "python";
	struct cell_request c;
	const struct program *program;
	json_t *answer = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = cell_language(req->body, &language, err);
	if (r == 0)
		r = read_code(req->body, &c, err);
	if (r == 0 && c.allow_stdin)
		r = err_set(err, ERR_INVALID, -EINVAL, "`allow_stdin` needs a session");
	if (r < 0)
		return r;
	program = find_program(language);
	if (!program || !program->always)
		r = run_kernel(req, resp, sb, language, &c, &answer, err);
	if (program && (program->always || (r < 0 && err->kind == ERR_UNSUPPORTED)))
		r = run_program(req, resp, sb, program, &c, &answer, err);
	if (r < 0 && err->kind == ERR_UNSUPPORTED)
		err->kind = ERR_INVALID; /* of this sandbox, not of the server */
	if (r < 0)
		return r;
	(void)json_object_set_new(answer, "language", json_string(language));
	return http_resp_json(resp, 200, answer, err);
}
