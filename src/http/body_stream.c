/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a request on its way to the guest. */
#include "http/body_stream.h"

#include <errno.h>

#include "base/clock.h"

enum { STALL_MS = 60000 }; /* a guest that takes no byte for so long */

struct body_stream {
	struct sandbox *sb;         /* owned reference */
	struct link_stream *stream; /* owned */
};

static int err_stalled(struct err *err)
{
	return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
		"timeout after %ds: the sandbox takes no more of the body", STALL_MS / 1000);
}

int body_stream_begin(struct http_req *req, struct sandbox *sb, json_t *request, struct err *err)
{
	struct body_stream *b = xnew(struct body_stream);

	req->upload = b;
	b->sb = sandbox_ref(sb);
	return sandbox_open(sb, request, &b->stream, err);
}

static int wait_for_answer(struct http_req *req, json_t **ret, struct err *err)
{
	struct body_stream *b = req->upload;

	for (;;) {
		struct link_event ev;
		int r = link_next(b->stream, &ev, clock_mono_ms() + STALL_MS, req->client_fd, err);
		bool over;

		if (r == 0)
			return err_stalled(err);
		if (r < 0)
			return r == -EPIPE ? sandbox_explain(b->sb, err) : r;
		over = ev.type == LINK_CLOSE;
		if (over)
			*ret = json_incref(ev.json);
		link_event_done(b->stream, &ev);
		if (over)
			return 0;
	}
}

int body_stream_chunk(struct http_req *req, const void *data, size_t len, struct err *err)
{
	struct body_stream *b = req->upload;
	json_t *ok;
	int r = link_send(b->stream, data, len, clock_mono_ms() + STALL_MS, req->client_fd, err);

	if (r == -ETIMEDOUT)
		return err_stalled(err);
	if (r == -EPIPE)
		return sandbox_explain(b->sb, err);
	if (r == -ECANCELED) {
		r = wait_for_answer(req, &ok, err);
		if (r == 0) {
			json_decref(ok);
			r = err_set(err, ERR_INTERNAL, -EPROTO,
				"the sandbox ended an upload before its end");
		}
	}
	return r;
}

int body_stream_end(struct http_req *req, json_t **ret, struct err *err)
{
	struct body_stream *b = req->upload;
	int r = link_end(b->stream, err);

	if (r == -EPIPE)
		return sandbox_explain(b->sb, err);
	return r == 0 || r == -ECANCELED ? wait_for_answer(req, ret, err) : r;
}

void body_stream_free(void *upload)
{
	struct body_stream *b = upload;

	if (!b)
		return;
	link_stream_free(b->stream);
	sandbox_unref(b->sb);
	free(b);
}
