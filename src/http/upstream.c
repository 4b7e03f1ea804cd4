/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange with an HTTP/1.1 server in a sandbox, over a stream of the link. */
#include "http/upstream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/answer.h"

struct upstream {
	struct sandbox *sb;         /* a reference, or NULL */
	struct link_stream *stream; /* owned */
	uint16_t port;
	int client_fd;         /* borrowed */
	struct answer *answer; /* owned; NULL until upstream_expect() */
	struct link_event ev;  /* DATA, held while `taken` < `ev.len` */
	size_t taken;
	bool ended; /* the server says no more */
};

struct upstream *upstream_new(struct link_stream *stream, struct sandbox *sb, uint16_t port,
	int client_fd)
{
	struct upstream *u = xnew(struct upstream);

	u->stream = stream;
	u->sb = sb ? sandbox_ref(sb) : NULL;
	u->port = port;
	u->client_fd = client_fd;
	return u;
}

struct upstream *upstream_close(struct upstream *u)
{
	if (!u)
		return NULL;
	if (u->taken < u->ev.len)
		link_event_done(u->stream, &u->ev);
	/* A server that was asked for nothing more need not think that it was cut off. */
	if (u->answer && answer_facts(u->answer)->over)
		(void)link_end(u->stream, NULL);
	link_stream_free(u->stream);
	if (u->sb)
		sandbox_unref(u->sb);
	answer_free(u->answer);
	free(u);
	return NULL;
}

void upstream_expect(struct upstream *u, bool no_body, bool upgrade)
{
	u->answer = answer_new(no_body, upgrade);
}

int upstream_explain(struct sandbox *sb, int r, struct err *err)
{
	if (r == -EPIPE && sb)
		return sandbox_explain(sb, err);
	if (r != -EREMOTEIO)
		return r;
	if (err->kind == ERR_UNSUPPORTED)
		return err_set(err, ERR_UNSUPPORTED, r,
			"the agent in this sandbox knows of no ports: its template was baked by an "
			"earlier version; build it again, and make a new sandbox");
	return err_wrap(err, "upstream");
}

static int err_answer(const struct upstream *u, struct err *err)
{
	const char *why = answer_facts(u->answer)->why;
	char shown[128];

	return err_set(err, ERR_UPSTREAM, -EPROTO,
		"upstream: what the server on port %d says is no HTTP answer: %s", u->port,
		str_printable(shown, sizeof(shown), why, strlen(why)));
}

/* Waits for more of what the server says. 1 with bytes in u->ev, 0 after the deadline, or at the server's end (`ended`). */
static int fetch(struct upstream *u, int64_t deadline_ms, struct err *err)
{
	while (!u->ended && u->taken == u->ev.len) {
		struct link_event ev;
		int r = link_next(u->stream, &ev, deadline_ms, u->client_fd, err);

		if (r <= 0)
			return r == 0 ? 0 : upstream_explain(u->sb, r, err);
		if (ev.type == LINK_DATA && ev.len > 0) {
			u->ev = ev;
			u->taken = 0;
			break;
		}
		u->ended = ev.type == LINK_END || ev.type == LINK_CLOSE;
		link_event_done(u->stream, &ev);
	}
	return u->taken < u->ev.len;
}

const void *upstream_rest(const struct upstream *u, size_t *ret_len)
{
	*ret_len = u->ev.len - u->taken;
	return *ret_len ? u->ev.data + u->taken : (const uint8_t *)"";
}

/* n bytes of it were used. */
static void take(struct upstream *u, size_t n)
{
	u->taken += n;
	if (u->taken < u->ev.len)
		return;
	link_event_done(u->stream, &u->ev);
	u->taken = u->ev.len = 0;
}

/* Reads up to the end of the head. 1 when it is there, 0 after the deadline. */
static int read_head(struct upstream *u, int64_t deadline_ms, struct err *err)
{
	while (!answer_facts(u->answer)->head) {
		int r = fetch(u, deadline_ms, err);
		const void *data;
		size_t len;
		ssize_t n;

		if (r < 0)
			return r;
		if (r == 0 && u->ended)
			return err_set(err, ERR_UPSTREAM, -EPROTO,
				"upstream: the server on port %d closed the connection without an "
				"answer",
				u->port);
		if (r == 0)
			return 0;
		data = upstream_rest(u, &len);
		n = answer_head(u->answer, data, len);
		if (n < 0)
			return err_answer(u, err);
		take(u, (size_t)n);
	}
	return 1;
}

/* Waits until the stream has news, or the client is gone. */
static int wait_for_room(struct upstream *u, int64_t deadline_ms, struct err *err)
{
	struct pollfd p[2] = {
		{.fd = link_stream_fd(u->stream), .events = POLLIN},
		{.fd = u->client_fd, .events = POLLRDHUP},
	};
	int64_t left = deadline_ms - clock_mono_ms();

	if (left <= 0)
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
			"upstream: timeout: the server on port %d takes no more of the request",
			u->port);
	if (poll(p, ARRAY_SIZE(p), (int)left) < 0 && errno != EINTR)
		return err_set_errno(err, -errno, "can't wait");
	if (p[1].revents)
		return err_set(err, ERR_INTERNAL, -ECONNRESET, "the client went away");
	return 0;
}

int upstream_send(struct upstream *u, const void *data, size_t len, int64_t stall_ms,
	struct err *err)
{
	int64_t deadline = clock_mono_ms() + stall_ms;
	const char *p = data;
	int r = 0;

	while (len > 0 && r >= 0) {
		size_t n;

		link_stream_clear(u->stream);
		r = read_head(u, 0, err);
		if (r != 0)
			return MIN(r, 0); /* it has answered: nobody needs the rest */
		n = MIN(len, link_stream_room(u->stream));
		if (n == 0) {
			r = wait_for_room(u, deadline, err);
			continue;
		}
		r = link_send(u->stream, p, n, deadline, u->client_fd, err);
		if (r == -ECANCELED)
			r = 0; /* the reason comes with the next look at it */
		p += n;
		len -= n;
		deadline = clock_mono_ms() + stall_ms;
	}
	return r < 0 ? upstream_explain(u->sb, r, err) : 0;
}

int upstream_wait_head(struct upstream *u, int64_t wait_ms, struct upstream_head *ret,
	struct err *err)
{
	const struct answer_facts *facts = answer_facts(u->answer);
	int r = read_head(u, clock_mono_ms() + wait_ms, err);

	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
			"upstream: timeout: the server on port %d has not answered for %llds",
			u->port, (long long)wait_ms / 1000);
	*ret = (struct upstream_head){
		.status = facts->status,
		.headers = &facts->headers,
		.body_len = facts->body_len,
		.upgraded = facts->upgraded,
	};
	return 0;
}

ssize_t upstream_read(struct upstream *u, void *dst, size_t max)
{
	const struct answer_facts *facts = answer_facts(u->answer);

	for (;;) {
		size_t len, body;
		const void *data = upstream_rest(u, &len);
		ssize_t n = answer_body(u->answer, data, MIN(max, len), dst, &body);
		struct err err; /* the client only sees that its answer is cut */
		int r;

		if (n < 0)
			return n;
		take(u, (size_t)n);
		if (body > 0)
			return (ssize_t)body;
		if (facts->over)
			return 0;
		r = fetch(u, -1, &err);
		if (r < 0)
			return r;
		if (r == 0)
			return answer_end(u->answer);
	}
}

struct link_stream *upstream_stream(struct upstream *u)
{
	return u->stream;
}
