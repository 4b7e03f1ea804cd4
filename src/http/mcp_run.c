/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools that run something.
 *
 * What comes from the guest is gathered, as for a buffered answer; on the way the client is told how many bytes of output
 * there are and how the last line reads, a few times a second. The answer is the last event of the stream.
 */
#include "http/mcp_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/cell.h"
#include "http/cell_run.h"
#include "http/command.h"
#include "http/event_body.h"
#include "http/json_in.h"
#include "http/mcp_calls.h"
#include "http/sse.h"

enum {
	DEFAULT_TIMEOUT_MS = 60 * 1000, /* of a cell: models forget to give one */
	LANGUAGE_BYTES_MAX = 64,
	PACKAGE_BYTES_MAX = 512,
	PROGRESS_MS = 250,
	TAIL_BYTES = 240,
};

struct run {
	struct mcp_call call;    /* owned */
	struct mcp_calls *calls; /* borrowed; where `entry` is in */
	struct mcp_entry entry;
	struct link_stream *stream; /* owned */
	bool is_cell;
	int64_t deadline_ms; /* clock_mono_ms(), -1: never */
	struct cell cell;    /* of a command: its output */
	struct event_body body;
	uint64_t bytes; /* of output so far */
	char tail[TAIL_BYTES];
	size_t tail_len;
	int64_t progress_ms; /* clock_mono_ms() when the client is told, -1: nothing is new */
	bool streams;
	struct sse out; /* where it streams */
	json_t *answer; /* owned; where it does not */
	bool over;      /* nothing comes after `out` */
};

bool mcp_runs(enum mcp_tool tool)
{
	return tool == MCP_TOOL_RUN_CODE || tool == MCP_TOOL_RUN_COMMAND ||
		tool == MCP_TOOL_INSTALL_PACKAGES;
}

/* ---- starting ---- */

/*
 * All calls in a language share a kernel, which keeps its name in a fork and a snapshot. It is no UUID, so the API's lists
 * leave it out (h_repl.c).
 */
static int open_cell(struct run *run, struct err *err)
{
	const struct mcp_call *c = &run->call;
	char session[LANGUAGE_BYTES_MAX + 8];
	const char *language = "python";
	struct cell_request cell = {.session = session, .timeout_ms = DEFAULT_TIMEOUT_MS};
	int r = json_in_str(c->args, "code", LIMIT_CODE_BYTES, &cell.code, err);

	if (r == 0 && !cell.code)
		r = err_set(err, ERR_INVALID, -EINVAL, "`code` is required: a string");
	if (r == 0)
		r = cell_language(c->args, &language, err);
	if (r == 0)
		r = json_in_seconds(c->args, "timeout_seconds", LIMIT_TIMEOUT_MS, &cell.timeout_ms,
			err);
	if (r == 0)
		r = mcp_call_sandbox(&run->call, err);
	if (r < 0)
		return r;
	cell.code_len = strlen(cell.code);
	(void)snprintf(session, sizeof(session), "mcp-%s", language);
	r = cell_session(c->sb, session, language, NULL, c->req->client_fd, err);
	if (r < 0 && err->kind != ERR_CONFLICT) /* which is there already */
		return r;
	run->is_cell = true;
	return cell_open(c->sb, &cell, c->req->client_fd, &run->stream, err);
}

static int open_command(struct run *run, json_t *body, struct err *err)
{
	const struct mcp_call *c = &run->call;
	struct command command;
	int r = command_read(body, &command, err);

	if (r == 0)
		r = mcp_call_sandbox(&run->call, err);
	if (r == 0)
		r = command_open(c->sb, &command, c->req->client_fd, &run->stream, err);
	if (r == 0)
		run->deadline_ms = command_deadline(&command);
	return r;
}

/* The tool's arguments as a body of the route: these, and no other that it has. */
static int open_shell(struct run *run, struct err *err)
{
	const json_t *args = run->call.args;
	json_t *command = json_object_get(args, "command"), *body;
	int r;

	if (!json_is_string(command))
		return err_set(err, ERR_INVALID, -EINVAL, "`command` is required: a string");
	body = json_pack("{s:O, s:O*, s:O*, s:O*}", "cmd", command, "cwd",
		json_object_get(args, "cwd"), "env", json_object_get(args, "env"),
		"timeout_seconds", json_object_get(args, "timeout_seconds"));
	r = open_command(run, body, err);
	json_decref(body);
	return r;
}

/* What pip takes for a package, and neither it for an option nor a shell in quotes for their end. */
static bool is_package(const char *s)
{
	static const char first[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/.";
	static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				   "/.-_+@:[],=<>!~ ;#%&?*";

	return s && *s && strchr(first, *s) && strspn(s, rest) == strlen(s) &&
		strlen(s) <= PACKAGE_BYTES_MAX;
}

static int open_pip(struct run *run, struct err *err)
{
	_cleanup_buf_ struct buf cmd = buf_init(LIMIT_COMMAND_BYTES);
	json_t *packages = json_object_get(run->call.args, "packages"), *package, *body;
	size_t n = json_array_size(packages), i;
	int r;

	if (n == 0 || n > LIMIT_MCP_PACKAGES)
		return err_set(err, ERR_INVALID, -EINVAL, "`packages` is required: 1 to %d strings",
			LIMIT_MCP_PACKAGES);
	r = buf_appendf(&cmd,
		"python3 -m pip install --no-input --disable-pip-version-check "
		"--progress-bar off --root-user-action ignore");
	json_array_foreach(packages, i, package) {
		const char *name = json_string_value(package);

		if (!is_package(name))
			return err_set(err, ERR_INVALID, -EINVAL,
				"`packages[%zu]` is no package: give a name, perhaps with a "
				"version, or a path; options are not taken",
				i);
		if (r == 0)
			r = buf_appendf(&cmd, " '%s'", name);
	}
	if (r < 0)
		return err_set(err, ERR_INTERNAL, r, "out of memory");
	body = json_pack("{s:s, s:O*}", "cmd", cmd.data, "timeout_seconds",
		json_object_get(run->call.args, "timeout_seconds"));
	r = open_command(run, body, err);
	json_decref(body);
	return r;
}

static int start(struct run *run, enum mcp_tool tool, struct err *err)
{
	if (tool == MCP_TOOL_RUN_CODE)
		return open_cell(run, err);
	return tool == MCP_TOOL_RUN_COMMAND ? open_shell(run, err) : open_pip(run, err);
}

/* ---- going on ---- */

static int deliver(struct run *run, json_t *message, struct err *err)
{
	if (run->streams)
		return sse_emit(&run->out, "message", message, err);
	json_decref(run->answer);
	run->answer = message;
	return message ? 0 : err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
}

/* Keeps the end of the output, for the client to be told. */
static void note_output(struct run *run, const char *data, size_t len)
{
	size_t n = MIN(len, sizeof(run->tail)), keep = MIN(run->tail_len, sizeof(run->tail) - n);

	memmove(run->tail, run->tail + run->tail_len - keep, keep);
	memcpy(run->tail + keep, data + len - n, n);
	run->tail_len = keep + n;
	run->bytes += len;
	if (run->progress_ms < 0 && run->streams)
		run->progress_ms = clock_mono_ms() + PROGRESS_MS;
}

/* Tells the last line of the output, for a person to look at. */
static void tell_progress(struct run *run)
{
	char text[TAIL_BYTES + 1];
	size_t end = run->tail_len, begin;
	json_t *message;

	while (end && run->tail[end - 1] == '\n')
		end--;
	for (begin = end; begin && run->tail[begin - 1] != '\n';)
		begin--;
	str_printable(text, sizeof(text), run->tail + begin, end - begin);
	message = mcp_progress(&run->call.message, run->bytes, text);
	if (message)
		(void)deliver(run, message, NULL); /* the end counts */
	run->progress_ms = -1;
}

static int finish(struct run *run, const json_t *ok, struct err *err)
{
	struct mcp_content content = run->is_cell
		? mcp_content_cell(cell_answer(&run->cell, ok), sandbox_id(run->call.sb))
		: mcp_content_command(command_answer(run->cell.streams, ok));

	run->over = true;
	return deliver(run, mcp_call_answer(&run->call, &content), err);
}

static void finish_failed(struct run *run, const struct err *err)
{
	struct mcp_content content = mcp_content_failure(err_msg(err));

	run->over = true;
	(void)deliver(run, mcp_call_answer(&run->call, &content), NULL);
}

static int take_event(struct run *run, const struct link_event *ev, struct err *err)
{
	if (ev->type == LINK_DATA && ev->channel == LINK_CH_BODY) {
		event_body_push(&run->body, ev->data, ev->len);
	} else if (ev->type == LINK_DATA) {
		cell_output(&run->cell, ev->channel == LINK_CH_STDERR, ev->data, ev->len);
		note_output(run, (const char *)ev->data, ev->len);
	} else if (ev->type == LINK_EVENT) {
		event_body_merge(&run->body, ev->json);
		cell_event(&run->cell, ev->json);
	}
	return ev->type == LINK_CLOSE ? finish(run, ev->json, err) : 0;
}

static bool is_due(int64_t at_ms)
{
	return at_ms >= 0 && at_ms <= clock_mono_ms();
}

/* Nothing came for as long as it was waited for. */
static int on_silence(struct run *run, struct err *err)
{
	if (is_due(run->deadline_ms))
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
			"timeout: the sandbox does not answer");
	return run->streams && !is_due(run->progress_ms) ? sse_ping(&run->out) : 0;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return b >= 0 && b < a ? b : a;
}

/* Waits until there is something to send, or all is over. 0, or -ECONNRESET. */
static int fill(struct run *run)
{
	while (sse_empty(&run->out) && !run->over) {
		int64_t until = clock_mono_ms() + SSE_PING_MS;
		struct link_event ev;
		struct err err = {0};
		int r;

		if (is_due(run->progress_ms)) {
			tell_progress(run);
			continue;
		}
		until = earlier(earlier(until, run->deadline_ms), run->progress_ms);
		r = link_next(run->stream, &ev, until, run->call.req->client_fd, &err);
		if (r == -ECONNRESET)
			return r;
		if (r > 0) {
			r = take_event(run, &ev, &err);
			link_event_done(run->stream, &ev);
		} else if (r == 0) {
			r = on_silence(run, &err);
		} else if (r == -EPIPE) {
			r = sandbox_explain(run->call.sb, &err);
		}
		if (r < 0)
			finish_failed(run, &err);
	}
	return 0;
}

static void run_free(void *user)
{
	struct run *run = user;

	mcp_calls_leave(run->calls, &run->entry);
	link_stream_free(run->stream);
	mcp_call_done(&run->call);
	cell_done(&run->cell);
	event_body_done(&run->body);
	sse_done(&run->out);
	json_decref(run->answer);
	free(run);
}

static ssize_t run_read(void *user, char *dst, size_t max)
{
	struct run *run = user;
	int r = fill(run);

	return r < 0 ? r : (ssize_t)sse_take(&run->out, dst, max);
}

static int answer_at_end(struct run *run, struct http_resp *resp, struct err *err)
{
	int r = fill(run);

	if (r == 0)
		r = http_resp_json(resp, 200, steal_ptr(&run->answer), err);
	else
		r = err_set(err, ERR_INTERNAL, r, "the client is gone");
	run_free(run);
	return r;
}

int mcp_run(struct mcp_call *c, enum mcp_tool tool, struct http_resp *resp, struct err *err)
{
	static const struct http_stream stream = {.read = run_read, .free = run_free};
	const char *accept = http_req_header(c->req, "Accept");
	struct run *run = xnew(struct run);
	int r;

	run->call = *c;
	run->calls = c->req->mcp_calls;
	run->entry = (struct mcp_entry){.id = c->message.id, .client_fd = c->req->client_fd};
	run->deadline_ms = run->progress_ms = -1;
	run->body = event_body_init();
	run->streams = accept && strstr(accept, "text/event-stream");
	run->out = sse_init(LIMIT_ANSWER_BYTES);
	cell_init(&run->cell, c->req->limits);
	r = mcp_session(c->req, &run->entry.session, err);
	mcp_calls_enter(run->calls, &run->entry);
	if (r == 0)
		r = start(run, tool, err);
	*c = run->call;
	if (r < 0) {
		run->call = (struct mcp_call){0};
		run_free(run);
		return r;
	}
	*c = (struct mcp_call){0};
	if (!run->streams)
		return answer_at_end(run, resp, err);
	return http_resp_stream(resp, SSE_TYPE, -1, &stream, run);
}
