/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the background: what they are, how they end, their output and stdin, signals. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"
#include "http/body_stream.h"
#include "http/command.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/relay.h"

enum {
	CALL_TIMEOUT_MS = 10000,
	DEFAULT_WAIT_SECONDS = 30,
	SIGNAL_NAME_BYTES_MAX = 16,
};

static const int64_t YEAR_10000_MS = 253402300800000;

/* The process of a request's path. */
static int read_target(struct http_req *req, struct sandbox **ret_sb, int64_t *ret_id,
	struct err *err)
{
	int r = http_req_sandbox(req, ret_sb, err);

	if (r == 0 && parse_i64(req->params[1], 1, UINT32_MAX, ret_id) < 0)
		r = err_set(err, ERR_PROCESS_NOT_FOUND, -ENOENT,
			"no such process: ids are the numbers that GET .../processes lists");
	return r;
}

static json_t *end_facts(const json_t *p)
{
	json_t *facts = command_exit_facts(p);

	(void)json_object_set_new(facts, "timed_out",
		json_boolean(json_is_true(json_object_get(p, "timed_out"))));
	return facts;
}

/* What the guest says of one, as far as it is what it should be. */
static json_t *process_json(const json_t *p)
{
	static const struct {
		const char *from, *to;
		json_type type;
	} members[] = {
		{"process", "id", JSON_INTEGER},
		{"pid", "pid", JSON_INTEGER},
		{"cmd", "cmd", JSON_STRING},
		{"output_bytes", "output_bytes", JSON_INTEGER},
	};
	bool running = json_is_true(json_object_get(p, "running"));
	int64_t started_ms = json_integer_value(json_object_get(p, "started_ms"));
	json_t *json = json_pack("{s:s, s:b}", "status", running ? "running" : "exited", "stdin",
		json_is_true(json_object_get(p, "stdin")));

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(p, members[i].from);

		if (v && json_typeof(v) == members[i].type)
			(void)json_object_set(json, members[i].to, v);
	}
	if (started_ms >= 0 && started_ms < YEAR_10000_MS) {
		char text[CLOCK_TEXT_SIZE];

		(void)json_object_set_new(json, "started_at",
			json_string(clock_format_rfc3339(text, started_ms)));
	}
	if (!running) {
		json_t *facts = end_facts(p);

		(void)json_object_update(json, facts);
		json_decref(facts);
	}
	return json;
}

int process_start(struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const struct command *c, struct err *err)
{
	json_t *ok, *json;
	int r = sandbox_call(sb, command_request(c), CALL_TIMEOUT_MS, req->client_fd, &ok, err);

	if (r < 0) {
		command_blame_request(r, err);
		return r;
	}
	json = process_json(ok);
	json_decref(ok);
	return http_resp_json(resp, 201, json, err);
}

int h_process_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	json_t *ok, *list, *p;
	size_t i;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s}", "op", "process_list"), CALL_TIMEOUT_MS,
			req->client_fd, &ok, err);
	if (r < 0)
		return r;
	list = json_array();
	json_array_foreach(json_object_get(ok, "processes"), i, p)
		(void)json_array_append_new(list, process_json(p));
	json_decref(ok);
	return http_resp_json(resp, 200, list, err);
}

/* What the guest says of it once it has ended, or after that time. ret may be NULL. */
static int ask(const struct http_req *req, struct sandbox *sb, int64_t id, int64_t wait_ms,
	json_t **ret, struct err *err)
{
	return sandbox_call(sb,
		json_pack("{s:s, s:I, s:I}", "op", "process_get", "process", (json_int_t)id,
			"wait_ms", (json_int_t)wait_ms),
		wait_ms + CALL_TIMEOUT_MS, req->client_fd, ret, err);
}

static int answer_process(struct http_req *req, struct http_resp *resp, int64_t wait_ms,
	struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	json_t *ok, *json;
	int64_t id;
	int r = read_target(req, &sb, &id, err);

	if (r == 0)
		r = ask(req, sb, id, wait_ms, &ok, err);
	if (r < 0)
		return r;
	json = process_json(ok);
	json_decref(ok);
	return http_resp_json(resp, 200, json, err);
}

int h_process_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return answer_process(req, resp, 0, err);
}

int h_process_wait(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int64_t seconds = DEFAULT_WAIT_SECONDS;
	int r = url_query_int(&req->url, "timeout_seconds", 0, LIMIT_TIMEOUT_MS / 1000, &seconds,
		err);

	return r < 0 ? r : answer_process(req, resp, seconds * 1000, err);
}

/* ---- output ---- */

static int on_event(struct relay *relay, const json_t *event, struct err *err)
{
	json_t *missed = json_object_get(event, "missed");

	if (!json_is_integer(missed))
		return 0;
	return relay_emit(relay, "truncated", json_pack("{s:O}", "bytes", missed), err);
}

static int on_close(struct relay *relay, const json_t *ok, struct err *err)
{
	return relay_emit(relay, "exit", end_facts(ok), err);
}

int h_process_stream(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct relay_ops ops = {.on_event = on_event, .on_close = on_close};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct link_stream *s;
	struct relay *relay;
	int64_t id;
	int r = read_target(req, &sb, &id, err);

	/* One that is not there is an error of the request, not a stream that ends with one. */
	if (r == 0)
		r = ask(req, sb, id, 0, NULL, err);
	if (r == 0)
		r = sandbox_open(sb,
			json_pack("{s:s, s:I}", "op", "process_output", "process", (json_int_t)id),
			&s, err);
	if (r < 0)
		return r;
	return relay_start(req, resp, &ops, steal_ptr(&sb), s, &relay);
}

/* ---- stdin ---- */

static int input_begin(struct http_req *req, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	bool eof = false;
	int64_t id;
	int r = read_target(req, &sb, &id, err);

	if (r == 0)
		r = url_query_flag(&req->url, "eof", &eof, err);
	if (r < 0)
		return r;
	return body_stream_begin(req, sb,
		json_pack("{s:s, s:I, s:b}", "op", "process_input", "process", (json_int_t)id,
			"eof", eof),
		err);
}

const struct http_upload h_process_input = {
	.begin = input_begin,
	.chunk = body_stream_chunk,
	.free = body_stream_free,
};

int h_process_stdin(struct http_req *req, struct http_resp *resp, struct err *err)
{
	json_t *ok;
	json_int_t bytes;
	int r = body_stream_end(req, &ok, err);

	if (r < 0)
		return r;
	bytes = json_integer_value(json_object_get(ok, "bytes"));
	json_decref(ok);
	return http_resp_json(resp, 200, json_pack("{s:I}", "bytes", bytes), err);
}

/* ---- signals ---- */

/* "SIGTERM", "term" or 15. */
static int read_signal(const json_t *body, int64_t *ret, struct err *err)
{
	const json_t *given = json_object_get(body, "signal");
	const char *name = NULL;
	int r;

	if (!json_is_string(given))
		return json_in_int(body, "signal", 1, NSIG - 1, ret, err);
	r = json_in_str(body, "signal", SIGNAL_NAME_BYTES_MAX, &name, err);
	if (r < 0)
		return r;
	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *known = sigabbrev_np(sig);

		if (known && strcasecmp(known, name) == 0) {
			*ret = sig;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, -EINVAL,
		"`signal` must be a signal's name or number, such as \"SIGTERM\" or 15");
}

int h_process_signal(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int64_t id, sig = SIGTERM;
	int r = read_target(req, &sb, &id, err);

	if (r == 0)
		r = read_signal(req->body, &sig, err);
	if (r == 0)
		r = sandbox_call(sb,
			json_pack("{s:s, s:I, s:I}", "op", "process_signal", "process",
				(json_int_t)id, "signal", (json_int_t)sig),
			CALL_TIMEOUT_MS, req->client_fd, NULL, err);
	return r < 0 ? r : http_resp_empty(resp, 204);
}
