/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to a sandbox: its last events, and those to come. Looking at them is no use of it. */
#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "core/event_log.h"
#include "http/handlers.h"
#include "http/sse.h"

enum {
	DEFAULT_TAIL = 50,
	/* All that there are, a few hundred bytes each as a rule, and 4 KiB at most. */
	OUT_BYTES_MAX = 2 << 20,
};

struct query {
	int64_t tail;
	int64_t after_ms;
	bool follow;
};

static int read_query(const struct url *url, struct query *ret, struct err *err)
{
	const char *since = url_query(url, "since");
	int r;

	*ret = (struct query){.tail = DEFAULT_TAIL, .after_ms = -1};
	r = url_query_int(url, "tail", 0, EVENT_LOG_EVENTS_MAX, &ret->tail, err);
	if (r == 0)
		r = url_query_flag(url, "follow", &ret->follow, err);
	if (r == 0 && since && parse_rfc3339_ms(since, &ret->after_ms) < 0)
		r = err_set(err, ERR_INVALID, -EINVAL,
			"`since` must be the `time` of an event, such as 2026-11-29T15:16:00.123Z");
	return r;
}

/* Under the names that the server of this API has, and under those of its documentation. */
static json_t *event_json(const struct sandbox *sb, const json_t *event)
{
	char time[CLOCK_TEXT_SIZE];
	json_t *payload = json_object_get(event, "payload");

	(void)clock_format_rfc3339(time, json_integer_value(json_object_get(event, "time_ms")));
	return json_pack("{s:s, s:s, s:s, s:O, s:O, s:O}", "time", time, "ts", time, "sandbox_id",
		sandbox_id(sb), "type", json_object_get(event, "type"), "payload", payload,
		"metadata", payload);
}

static int answer_list(struct http_resp *resp, struct sandbox *sb, const struct query *q,
	struct err *err)
{
	json_t *events = event_log_read(sandbox_events(sb), q->after_ms, (size_t)q->tail, NULL);
	json_t *list = json_array(), *event;
	size_t i;

	json_array_foreach(events, i, event)
		(void)json_array_append_new(list, event_json(sb, event));
	json_decref(events);
	return http_resp_json(resp, 200, json_pack("{s:o}", "events", list), err);
}

/* ---- following ---- */

struct following {
	struct sandbox *sb; /* owned reference */
	struct follower follower;
	int64_t after_ms; /* of the last that was sent, or is not wanted */
	int64_t tail;     /* of the first reading */
	int client_fd;    /* borrowed */
	struct sse out;
};

/* What is new. 1, 0 where there is nothing, or -ENODATA where nothing will come. */
static int take_events(struct following *f)
{
	bool closed;
	json_t *events =
		event_log_read(sandbox_events(f->sb), f->after_ms, (size_t)f->tail, &closed);
	size_t n = json_array_size(events), i;
	json_t *event;

	json_array_foreach(events, i, event) {
		(void)sse_emit(&f->out, "event", event_json(f->sb, event), NULL); /* it fits */
		f->after_ms = json_integer_value(json_object_get(event, "time_ms"));
	}
	json_decref(events);
	f->tail = EVENT_LOG_EVENTS_MAX;
	if (n > 0)
		return 1;
	return closed ? -ENODATA : 0;
}

static ssize_t following_read(void *user, char *dst, size_t max)
{
	struct following *f = user;

	while (sse_empty(&f->out)) {
		int r = take_events(f);

		if (r == -ENODATA)
			return 0;
		if (r == 0)
			r = bell_wait(f->follower.bell, clock_mono_ms() + SSE_PING_MS,
				f->client_fd);
		if (r == -ETIMEDOUT)
			r = sse_ping(&f->out);
		if (r < 0)
			return r;
	}
	return (ssize_t)sse_take(&f->out, dst, max);
}

static void following_free(void *user)
{
	struct following *f = user;

	event_log_unfollow(sandbox_events(f->sb), &f->follower);
	sandbox_unref(f->sb);
	sse_done(&f->out);
	free(f);
}

/* -1 where nothing has happened yet. */
static int64_t last_time(struct sandbox *sb)
{
	json_t *last = event_log_read(sandbox_events(sb), -1, 1, NULL);
	json_t *time = json_object_get(json_array_get(last, 0), "time_ms");
	int64_t ms = time ? json_integer_value(time) : -1;

	json_decref(last);
	return ms;
}

static int answer_stream(const struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const struct query *q, struct err *err)
{
	static const struct http_stream stream = {.read = following_read, .free = following_free};
	struct following *f = xnew(struct following);
	int r = event_log_follow(sandbox_events(sb), &f->follower, err);

	if (r < 0) {
		free(f);
		return r;
	}
	f->sb = sandbox_ref(sb);
	f->after_ms = q->tail ? q->after_ms : last_time(sb);
	f->tail = q->tail;
	f->client_fd = req->client_fd;
	f->out = sse_init(OUT_BYTES_MAX);
	return http_resp_stream(resp, SSE_TYPE, -1, &stream, f);
}

int h_events(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = core_find(req->core, req->params[0], err);
	struct query q;
	int r = sb ? read_query(&req->url, &q, err) : err->os;

	if (r < 0)
		return r;
	return q.follow ? answer_stream(req, resp, sb, &q, err) : answer_list(resp, sb, &q, err);
}
