/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream from the guest, told to the client as server-sent events.
 *
 * The library asks for bytes; while there are none, relay_read() waits for the guest, for the
 * client to go away, or for the time to send a comment. So memory holds one event at most, and a
 * client that reads slowly slows the guest down through the window of its stream.
 */
#include "http/relay.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/command.h"

/* An event of the largest size whose every character needs an escape of two. */
#define OUT_BYTES_MAX (2 * LIMIT_EVENT_BYTES + KIB(64))

int relay_emit(struct relay *r, const char *event, json_t *data, struct err *err)
{
	int n;

	/* Without `data` it fails, as sse_emit() does. */
	(void)json_object_set_new(data, "seq", json_integer((json_int_t)r->seq));
	n = sse_emit(&r->out, event, data, err);
	if (n == 0)
		r->seq++;
	return n;
}

static int emit_text(struct relay *r, enum link_channel channel, const void *data, size_t len,
	struct err *err)
{
	bool is_err = channel == LINK_CH_STDERR;
	_cleanup_buf_ struct buf text = buf_init(UTF8_STREAM_MAX(LIMIT_FRAME_BYTES));
	int n = data ? utf8_stream_push(&r->text[is_err], data, len, &text)
		     : utf8_stream_end(&r->text[is_err], &text);

	if (n < 0)
		return err_set(err, ERR_INTERNAL, n, "out of memory");
	if (text.len == 0)
		return 0;
	return relay_emit(r, is_err ? "stderr" : "stdout",
		json_pack("{s:o}", "chunk", json_stringn(text.data, text.len)), err);
}

/* The last event of a stream that failed. */
static void emit_error(struct relay *r, struct err *err)
{
	(void)relay_emit(r, "error",
		json_pack("{s:s, s:s}", "error", err_msg(err), "code", err_code(err->kind)), NULL);
	r->over = true;
}

static int take_event(struct relay *r, const struct link_event *ev, struct err *err)
{
	int n = 0;

	switch (ev->type) {
	case LINK_DATA:
		if (ev->channel == LINK_CH_BODY)
			event_body_push(&r->body, ev->data, ev->len);
		else if (r->ops->on_data)
			n = r->ops->on_data(r, ev->channel, ev->data, ev->len, err);
		else
			n = emit_text(r, ev->channel, ev->data, ev->len, err);
		break;
	case LINK_EVENT:
		event_body_merge(&r->body, ev->json);
		n = r->ops->on_event ? r->ops->on_event(r, ev->json, err) : 0;
		break;
	case LINK_CLOSE:
		for (int ch = LINK_CH_STDOUT; n == 0 && ch <= LINK_CH_STDERR; ch++)
			n = emit_text(r, (enum link_channel)ch, NULL, 0, err);
		if (n == 0)
			n = r->ops->on_close(r, ev->json, err);
		r->over = true;
		break;
	case LINK_END:
	case LINK_HELLO:
	case LINK_OPEN:
	case LINK_CREDIT:
	case _LINK_TYPE_MAX:
		break;
	}
	return n;
}

/* Waits until there is something to send. 0, or -ECONNRESET. */
static int fill(struct relay *r)
{
	while (sse_empty(&r->out) && !r->over) {
		int64_t ping = clock_mono_ms() + SSE_PING_MS;
		bool last = r->deadline_ms >= 0 && r->deadline_ms < ping;
		struct link_event ev;
		struct err err = {0};
		int n = link_next(r->stream, &ev, last ? r->deadline_ms : ping, r->client_fd, &err);

		if (n == -ECONNRESET)
			return n;
		if (n > 0) {
			n = take_event(r, &ev, &err);
			link_event_done(r->stream, &ev);
		} else if (n == 0 && last) {
			n = err_set(&err, ERR_TIMEOUT, -ETIMEDOUT, "timeout after %llds",
				(long long)r->timeout_ms / 1000);
		} else if (n == 0) {
			n = sse_ping(&r->out);
		} else if (n == -EPIPE) {
			n = sandbox_explain(r->sb, &err);
		} else {
			command_blame_request(n, &err);
		}
		if (n < 0)
			emit_error(r, &err);
	}
	return 0;
}

static ssize_t relay_read(void *user, char *dst, size_t max)
{
	struct relay *r = user;
	int status = fill(r);

	return status < 0 ? status : (ssize_t)sse_take(&r->out, dst, max);
}

static void relay_free(void *user)
{
	struct relay *r = user;

	if (r->ops->free_user)
		r->ops->free_user(r->user);
	link_stream_free(r->stream);
	sandbox_unref(r->sb);
	event_body_done(&r->body);
	sse_done(&r->out);
	free(r);
}

static const struct http_stream relay_stream = {
	.read = relay_read,
	.free = relay_free,
};

int relay_start(struct http_req *req, struct http_resp *resp, const struct relay_ops *ops,
	struct sandbox *sb, struct link_stream *stream, struct relay **ret)
{
	struct relay *r = xnew(struct relay);

	r->ops = ops;
	r->sb = sb;
	r->stream = stream;
	r->client_fd = req->client_fd;
	r->deadline_ms = -1;
	r->out = sse_init(OUT_BYTES_MAX);
	r->body = event_body_init();
	*ret = r;
	return http_resp_stream(resp, SSE_TYPE, -1, &relay_stream, r);
}
