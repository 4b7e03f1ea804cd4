/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs: what the commands of a sandbox have written, as its agent keeps it, or what its machine's console has said, which is
 * there for a machine that has ended, too.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "core/console.h"
#include "http/handlers.h"
#include "http/lines.h"
#include "http/relay.h"

enum {
	STALL_MS = 10000,
	/* Of text that is told at first: all that an agent keeps, were each byte no UTF-8. */
	TEXT_BYTES_MAX = 1 << 20,
};

enum source {
	SOURCE_BOTH,
	SOURCE_STDOUT,
	SOURCE_STDERR,
	SOURCE_CONSOLE,
	_SOURCE_MAX,
};

static const char *const source_names[] = {
	[SOURCE_BOTH] = "both",
	[SOURCE_STDOUT] = "stdout",
	[SOURCE_STDERR] = "stderr",
	[SOURCE_CONSOLE] = "console",
};
static_assert(ARRAY_SIZE(source_names) == _SOURCE_MAX, "a name for each");

struct query {
	enum source source;
	int64_t tail; /* lines of what there is */
	bool follow;
};

static int read_source(const char *text, enum source *ret, struct err *err)
{
	for (int i = 0; text && i < _SOURCE_MAX; i++) {
		if (strcmp(text, source_names[i]) == 0) {
			*ret = (enum source)i;
			return 0;
		}
	}
	return !text ? 0
		     : err_set(err, ERR_INVALID, -EINVAL,
			       "`stream` must be both, stdout, stderr or console");
}

static int read_query(const struct url *url, struct query *ret, struct err *err)
{
	int r;

	*ret = (struct query){.tail = TEXT_BYTES_MAX};
	r = read_source(url_query(url, "stream"), &ret->source, err);
	if (r == 0)
		r = url_query_int(url, "tail", 0, TEXT_BYTES_MAX, &ret->tail, err);
	if (r == 0)
		r = url_query_flag(url, "follow", &ret->follow, err);
	return r;
}

/* ---- what there is ---- */

/* Lines, up to the bound; the oldest make room. */
static int add_line(const char *line, size_t len, void *user)
{
	struct buf *text = user;

	if (text->len + len > text->max) {
		size_t half = text->len / 2, start = lines_tail(text->data, half, 1);

		/* Where that line is long its beginning goes, too. */
		if (start < text->len + len - text->max)
			start = str_utf8_floor(text->data, half);
		buf_consume(text, start);
	}
	return buf_append(text, line, len);
}

static int answer_text(struct http_resp *resp, struct buf *text, const struct query *q,
	struct err *err)
{
	if (text->len)
		buf_consume(text, lines_tail(text->data, text->len, (uint64_t)q->tail));
	return http_resp_text(resp, 200, "text/plain; charset=utf-8", text, err);
}

static int err_memory(struct err *err)
{
	return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
}

/* ---- of commands ---- */

/* stdout and stderr: each has its own line that is not whole. */
struct output {
	struct query q;
	struct lines lines[2];
	struct buf text; /* what there is, until the guest says that it is all */
	bool live;
};

static struct output *output_new(const struct query *q)
{
	struct output *o = xnew(struct output);

	o->q = *q;
	o->lines[0] = lines_init();
	o->lines[1] = lines_init();
	o->text = buf_init(TEXT_BYTES_MAX);
	return o;
}

static void output_free(void *user)
{
	struct output *o = user;

	lines_done(&o->lines[0]);
	lines_done(&o->lines[1]);
	buf_done(&o->text);
	free(o);
}

static bool is_wanted(const struct output *o, enum link_channel channel)
{
	return o->q.source == SOURCE_BOTH ||
		(o->q.source == SOURCE_STDERR) == (channel == LINK_CH_STDERR);
}

static int take_output(struct output *o, enum link_channel channel, const void *data, size_t len,
	lines_fn *fn, void *user)
{
	if (!is_wanted(o, channel))
		return 0;
	return lines_push(&o->lines[channel == LINK_CH_STDERR], data, len, fn, user);
}

/* Reads the stream to its end. */
static int gather(struct link_stream *s, struct output *o, int client_fd, struct err *err)
{
	bool over = false;

	while (!over) {
		struct link_event ev;
		int r = link_next(s, &ev, clock_mono_ms() + STALL_MS, client_fd, err);

		if (r == 0)
			return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
				"log timeout after %ds: the sandbox does not answer",
				STALL_MS / 1000);
		if (r < 0)
			return r;
		r = ev.type == LINK_DATA
			? take_output(o, ev.channel, ev.data, ev.len, add_line, &o->text)
			: 0;
		over = ev.type == LINK_CLOSE;
		link_event_done(s, &ev);
		if (r < 0)
			return err_memory(err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(o->lines); i++) {
		if (lines_end(&o->lines[i], add_line, &o->text) < 0)
			return err_memory(err);
	}
	return 0;
}

static int emit_line(const char *line, size_t len, void *user)
{
	return relay_emit(user, "line", json_pack("{s:o}", "line", json_stringn(line, len)), NULL);
}

static int on_data(struct relay *relay, enum link_channel channel, const void *data, size_t len,
	struct err *err)
{
	struct output *o = relay->user;
	int r = take_output(o, channel, data, len, o->live ? emit_line : add_line,
		o->live ? (void *)relay : &o->text);

	return r < 0 ? err_memory(err) : 0;
}

/* All that there was is in `text`. */
static int go_live(struct relay *relay, struct output *o, struct err *err)
{
	struct buf *text = &o->text;
	size_t at = text->len ? lines_tail(text->data, text->len, (uint64_t)o->q.tail) : 0;
	int r = 0;

	o->live = true;
	while (r == 0 && at < text->len) {
		size_t n = lines_first(text->data + at, text->len - at);

		r = emit_line(text->data + at, n, relay);
		at += n;
	}
	buf_done(text);
	return r < 0 ? err_memory(err) : 0;
}

static int on_event(struct relay *relay, const json_t *event, struct err *err)
{
	struct output *o = relay->user;
	json_t *missed = json_object_get(event, "missed");

	if (json_is_true(json_object_get(event, "live")))
		return go_live(relay, o, err);
	if (!o->live || !json_is_integer(missed))
		return 0; /* that more was there once is no news */
	/* Clients show the `line` of any event. */
	return relay_emit(relay, "truncated",
		json_pack("{s:O, s:s}", "bytes", missed, "line", "[output was lost]\n"), err);
}

static int on_close(struct relay *relay, const json_t *ok, struct err *err)
{
	return 0;
}

static int answer_output(struct http_req *req, struct http_resp *resp, const struct query *q,
	struct err *err)
{
	static const struct relay_ops ops = {.on_data = on_data,
		.on_event = on_event,
		.on_close = on_close,
		.free_user = output_free};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_stream_ struct link_stream *s = NULL;
	struct output *o;
	struct relay *relay;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = sandbox_open(sb, json_pack("{s:s, s:b}", "op", "logs", "follow", q->follow), &s,
			err);
	if (r < 0)
		return r;
	o = output_new(q);
	if (q->follow) {
		r = relay_start(req, resp, &ops, steal_ptr(&sb), steal_ptr(&s), &relay);
		relay->user = o;
		return r;
	}
	r = gather(s, o, req->client_fd, err);
	if (r == -EPIPE)
		r = sandbox_explain(sb, err);
	if (r == 0)
		r = answer_text(resp, &o->text, q, err);
	output_free(o);
	return r;
}

/* ---- of the console ---- */

struct watcher {
	struct sandbox *sb; /* owned reference */
	struct follower follower;
	uint64_t at;
	int client_fd; /* borrowed */
	struct lines lines;
	struct sse out;
};

static int emit_console_line(const char *line, size_t len, void *user)
{
	return sse_emit(user, "line", json_pack("{s:o}", "line", json_stringn(line, len)), NULL);
}

static ssize_t watcher_read(void *user, char *dst, size_t max)
{
	struct watcher *w = user;
	char data[CONSOLE_BYTES];
	bool closed;

	while (sse_empty(&w->out)) {
		size_t n =
			console_read(sandbox_console(w->sb), &w->at, data, sizeof(data), &closed);
		int r = lines_push(&w->lines, data, n, emit_console_line, &w->out);

		if (r == 0 && n == 0 && closed) {
			r = lines_end(&w->lines, emit_console_line, &w->out);
			if (r == 0 && sse_empty(&w->out))
				return 0;
		} else if (r == 0 && n == 0) {
			r = bell_wait(w->follower.bell, clock_mono_ms() + SSE_PING_MS,
				w->client_fd);
		}
		if (r == -ETIMEDOUT)
			r = sse_ping(&w->out);
		if (r < 0)
			return r;
	}
	return (ssize_t)sse_take(&w->out, dst, max);
}

static void watcher_free(void *user)
{
	struct watcher *w = user;

	console_unfollow(sandbox_console(w->sb), &w->follower);
	sandbox_unref(w->sb);
	lines_done(&w->lines);
	sse_done(&w->out);
	free(w);
}

/* Begins with the last lines of what there is. */
static int follow_console(const struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const char *text, size_t len, uint64_t at, struct err *err)
{
	static const struct http_stream stream = {.read = watcher_read, .free = watcher_free};
	struct watcher *w = xnew(struct watcher);
	int r = console_follow(sandbox_console(sb), &w->follower, err);

	if (r < 0) {
		free(w);
		return r;
	}
	w->sb = sandbox_ref(sb);
	w->at = at;
	w->client_fd = req->client_fd;
	w->lines = lines_init();
	w->out = sse_init(TEXT_BYTES_MAX);
	(void)lines_push(&w->lines, text, len, emit_console_line, &w->out); /* it fits */
	return http_resp_stream(resp, SSE_TYPE, -1, &stream, w);
}

static int answer_console(struct http_req *req, struct http_resp *resp, const struct query *q,
	struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = core_find(req->core, req->params[0], err);
	_cleanup_buf_ struct buf text = buf_init(TEXT_BYTES_MAX);
	struct lines lines = lines_init();
	char data[CONSOLE_BYTES];
	uint64_t at = 0;
	size_t n, start;
	bool closed;
	int r;

	if (!sb)
		return err->os;
	n = console_read(sandbox_console(sb), &at, data, sizeof(data), &closed);
	start = lines_tail(data, n, (uint64_t)q->tail);
	if (q->follow)
		return follow_console(req, resp, sb, data + start, n - start, at, err);
	r = lines_push(&lines, data + start, n - start, add_line, &text);
	if (r == 0)
		r = lines_end(&lines, add_line, &text);
	lines_done(&lines);
	return r < 0 ? err_memory(err) : answer_text(resp, &text, q, err);
}

int h_logs(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct query q;
	int r = read_query(&req->url, &q, err);

	if (r < 0)
		return r;
	return q.source == SOURCE_CONSOLE ? answer_console(req, resp, &q, err)
					  : answer_output(req, resp, &q, err);
}
