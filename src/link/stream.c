/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of a link, in the thread that uses it: open, wait, send, close. How it works stands in link.c. */
#include <errno.h>
#include <string.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/json_count.h"
#include "base/str.h"
#include "link/link_internal.h"

/* Sends the request in parts of a frame each; takes the reference. */
static int send_open(struct link *link, uint32_t stream, json_t *request, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(request, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0, sent = 0, max = LIMIT_OPEN_BYTES;
	int r = 0;

	json_decref(request);
	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	if (len > max)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"the request is too long for the sandbox (%zu KiB; %zu KiB at most)",
			len >> 10, max >> 10);
	while (r == 0 && sent < len) {
		size_t n = MIN(len - sent, LIMIT_FRAME_BYTES);

		r = link_send_frame(link, LINK_OPEN, sent + n < len ? LINK_MORE : 0, stream,
			text + sent, n, err);
		sent += n;
	}
	return r;
}

static int add_stream(struct link *link, struct link_stream *s, struct err *err)
{
	int r = -EAGAIN;

	pthread_mutex_lock(&link->lock);
	for (size_t i = 0; i < LIMIT_STREAMS; i++) {
		if (!link->streams[i]) {
			link->streams[i] = s;
			s->id = link->next_id++;
			r = 0;
			break;
		}
	}
	pthread_mutex_unlock(&link->lock);
	if (r < 0)
		return err_set(err, ERR_TOO_MANY, r,
			"%d requests are under way in this sandbox already; wait for one of them",
			LIMIT_STREAMS);
	return 0;
}

/* Takes the stream out of its link and frees it. */
static void drop_stream(struct link_stream *s)
{
	struct link *link = s->link;

	pthread_mutex_lock(&link->lock);
	for (size_t i = 0; i < LIMIT_STREAMS; i++) {
		if (link->streams[i] == s)
			link->streams[i] = NULL;
	}
	for (const struct chunk *c = s->head; c; c = c->next)
		link->queued -= link_chunk_cost(c->len);
	pthread_mutex_unlock(&link->lock);
	while (s->head) {
		struct chunk *c = s->head;

		s->head = c->next;
		free(c);
	}
	cleanup_close(&s->bell);
	buf_done(&s->event_buf);
	free(s);
	link_unref(link);
}

int link_open(struct link *link, json_t *request, struct link_stream **ret, struct err *err)
{
	struct link_stream *s = xnew(struct link_stream);
	int r;

	s->link = link_ref(link);
	s->tail = &s->head;
	s->tx_window = LIMIT_STREAM_WINDOW;
	s->event_buf = buf_init(LIMIT_EVENT_BYTES);
	s->bell = bell_new();
	if (s->bell < 0) {
		json_decref(request);
		r = err_set_errno(err, s->bell, "can't open a stream to the sandbox");
		goto fail;
	}
	pthread_mutex_lock(&link->open_lock);
	r = add_stream(link, s, err);
	if (r == 0)
		r = send_open(link, s->id, request, err);
	else
		json_decref(request);
	pthread_mutex_unlock(&link->open_lock);
	if (r < 0)
		goto fail;
	*ret = s;
	return 0;
fail:
	drop_stream(s); /* the guest knows nothing of it: no cancel */
	return r;
}

struct link_stream *link_stream_free(struct link_stream *s)
{
	bool closed;

	if (!s)
		return NULL;
	pthread_mutex_lock(&s->link->lock);
	closed = s->closed;
	pthread_mutex_unlock(&s->link->lock);
	if (!closed)
		link_cancel(s);
	drop_stream(s);
	return NULL;
}

void link_cancel(struct link_stream *s)
{
	(void)link_send_frame(s->link, LINK_CLOSE, 0, s->id, NULL, 0,
		NULL); /* dead is cancelled too */
}

int link_stream_fd(const struct link_stream *s)
{
	return s->bell;
}

void link_stream_clear(struct link_stream *s)
{
	uint64_t n;

	(void)!read(s->bell, &n, sizeof(n)); /* clear already is as good */
}

static int err_hangup(struct err *err)
{
	return err_set(err, ERR_INTERNAL, -ECONNRESET, "the client went away");
}

/* Takes the next chunk off the queue. 1, 0 for none, -EPIPE when none will come. */
static int pop_chunk(struct link_stream *s, struct chunk **ret, struct err *err)
{
	struct link *link = s->link;
	struct chunk *c;
	bool dead;

	pthread_mutex_lock(&link->lock);
	dead = link->dead;
	c = s->head;
	if (c) {
		s->head = c->next;
		if (!s->head)
			s->tail = &s->head;
		link->queued -= link_chunk_cost(c->len);
	}
	pthread_mutex_unlock(&link->lock);
	if (!c)
		return dead ? link_err_dead(link, err) : 0;
	*ret = c;
	return 1;
}

/* Gives window back, in portions that are worth a frame. */
static void give_credit(struct link_stream *s, size_t n)
{
	uint8_t payload[4];

	s->rx_due += n;
	if (s->rx_due < LIMIT_STREAM_WINDOW / 4)
		return;
	pthread_mutex_lock(&s->link->lock);
	s->rx_open -= s->rx_due;
	pthread_mutex_unlock(&s->link->lock);
	link_put_u32(payload, (uint32_t)s->rx_due);
	s->rx_due = 0;
	/* A dead link is noticed by the next wait. */
	(void)link_send_frame(s->link, LINK_CREDIT, 0, s->id, payload, sizeof(payload), NULL);
}

static enum err_kind kind_of_guest(const char *kind)
{
	static const struct {
		const char *guest;
		enum err_kind ours;
	} kinds[] = {
		{"invalid", ERR_INVALID},
		{"not_found", ERR_FILE_NOT_FOUND},
		{"no_session", ERR_SESSION_NOT_FOUND},
		{"no_process", ERR_PROCESS_NOT_FOUND},
		{"not_a_directory", ERR_INVALID},
		{"is_a_directory", ERR_INVALID},
		{"exists", ERR_CONFLICT},
		{"denied", ERR_INVALID},
		{"no_space", ERR_NO_SPACE},
		{"busy", ERR_CONFLICT},
		{"limit", ERR_TOO_MANY},
		{"refused", ERR_UPSTREAM},
		{"reset", ERR_UPSTREAM},
		{"unsupported", ERR_UNSUPPORTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].guest, kind) == 0)
			return kinds[i].ours;
	}
	return ERR_INTERNAL;
}

static int bad_guest(struct link *link, struct err *err)
{
	link_fail(link, "its guest agent broke the link's protocol");
	return link_err_dead(link, err);
}

/* Reads the guest's CLOSE: the "ok" object, or its error as ours. */
static int parse_close(struct link_stream *s, const struct chunk *c, json_t **ret, struct err *err)
{
	json_t *root = json_loadb((const char *)c->data, c->len, JSON_REJECT_DUPLICATES, NULL);
	json_t *ok = json_object_get(root, "ok"), *error = json_object_get(root, "error");
	const char *kind = json_string_value(json_object_get(error, "kind"));
	const char *msg = json_string_value(json_object_get(error, "message"));
	char safe[400];
	int r;

	if (json_is_object(ok)) {
		*ret = json_incref(ok);
		r = 0;
	} else if (kind && msg) {
		r = err_set(err, kind_of_guest(kind), -EREMOTEIO, "%s",
			str_printable(safe, sizeof(safe), msg, strlen(msg)));
	} else {
		r = bad_guest(s->link, err);
	}
	json_decref(root);
	return r;
}

/* Adds a part. 1 with *ret when the event is whole, 0 when more is to come. */
static int gather_event(struct link_stream *s, const struct chunk *c, json_t **ret, struct err *err)
{
	if (s->event_lost || buf_append(&s->event_buf, c->data, c->len) < 0)
		s->event_lost += s->event_buf.len + c->len;
	if (s->event_lost)
		buf_done(&s->event_buf);
	if (c->arg & LINK_MORE)
		return 0;
	if (s->event_buf.len &&
		json_count_values(s->event_buf.data, s->event_buf.len) > LIMIT_EVENT_VALUES)
		s->event_lost = s->event_buf.len;
	if (s->event_lost)
		*ret = json_pack("{s:s, s:I}", "type", "dropped", "bytes",
			(json_int_t)s->event_lost);
	else
		*ret = json_loadb(s->event_buf.data ? s->event_buf.data : "", s->event_buf.len,
			JSON_ALLOW_NUL, NULL);
	s->event_lost = 0;
	buf_done(&s->event_buf);
	if (!json_is_object(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		return bad_guest(s->link, err);
	}
	return 1;
}

/* Turns a chunk into an event. 1, 0 when there is nothing to tell yet, or an error. */
static int take_chunk(struct link_stream *s, struct chunk *c, struct link_event *ret,
	struct err *err)
{
	json_t *json = NULL;
	int r = 1;

	switch (c->type) {
	case LINK_DATA:
		if (c->arg > LINK_CH_STDERR)
			r = bad_guest(s->link, err);
		break;
	case LINK_END:
		break;
	case LINK_EVENT:
		r = gather_event(s, c, &json, err);
		give_credit(s, c->len);
		break;
	case LINK_CLOSE:
		r = parse_close(s, c, &json, err);
		r = r < 0 ? r : 1;
		break;
	case LINK_HELLO:
	case LINK_OPEN:
	case LINK_CREDIT:
	case _LINK_TYPE_MAX:
	default:
		assert(false); /* dispatch() queues no such thing */
	}
	if (r <= 0) {
		free(c);
		return r;
	}
	*ret = (struct link_event){
		.type = c->type,
		.channel = c->type == LINK_DATA ? (enum link_channel)c->arg : LINK_CH_BODY,
		.data = c->data,
		.len = c->type == LINK_DATA ? c->len : 0,
		.json = json,
		.chunk = c,
	};
	return 1;
}

int link_next(struct link_stream *s, struct link_event *ret, int64_t deadline_ms, int hangup_fd,
	struct err *err)
{
	for (;;) {
		struct chunk *c = NULL;
		int r = pop_chunk(s, &c, err);

		if (r > 0) {
			r = take_chunk(s, c, ret, err);
			if (r != 0)
				return r;
			continue;
		}
		if (r < 0)
			return r;
		r = bell_wait(s->bell, deadline_ms, hangup_fd);
		if (r == -ETIMEDOUT)
			return 0;
		if (r < 0)
			return err_hangup(err);
	}
}

void link_event_done(struct link_stream *s, struct link_event *ev)
{
	if (ev->type == LINK_DATA)
		give_credit(s, ev->len);
	json_decref(ev->json);
	free(ev->chunk);
	*ev = (struct link_event){0};
}

/* Window for DATA; the lock is held. */
static size_t room(const struct link_stream *s)
{
	if (s->link->dead || s->closed || s->tx_window <= LIMIT_CONTROL_BYTES)
		return 0;
	return s->tx_window - LIMIT_CONTROL_BYTES;
}

size_t link_stream_room(struct link_stream *s)
{
	size_t n;

	pthread_mutex_lock(&s->link->lock);
	n = room(s);
	pthread_mutex_unlock(&s->link->lock);
	return n;
}

/* Takes up to `want` bytes of window, waiting for some. Returns them or an error. */
static ssize_t take_window(struct link_stream *s, size_t want, int64_t deadline_ms, int hangup_fd,
	struct err *err)
{
	struct link *link = s->link;

	for (;;) {
		bool dead, closed;
		size_t n;
		int r;

		pthread_mutex_lock(&link->lock);
		dead = link->dead;
		closed = s->closed;
		n = MIN(want, room(s));
		s->tx_window -= n;
		pthread_mutex_unlock(&link->lock);
		if (dead)
			return link_err_dead(link, err);
		if (closed)
			return err_set(err, ERR_INTERNAL, -ECANCELED,
				"the sandbox stopped listening");
		if (n > 0)
			return (ssize_t)n;
		r = bell_wait(s->bell, deadline_ms, hangup_fd);
		if (r == -ETIMEDOUT)
			return err_set(err, ERR_TIMEOUT, r,
				"timeout: the sandbox takes no more data");
		if (r < 0)
			return err_hangup(err);
	}
}

int link_send(struct link_stream *s, const void *data, size_t len, int64_t deadline_ms,
	int hangup_fd, struct err *err)
{
	const uint8_t *p = data;

	while (len > 0) {
		ssize_t n =
			take_window(s, MIN(len, LIMIT_FRAME_BYTES), deadline_ms, hangup_fd, err);
		int r;

		if (n < 0)
			return (int)n;
		r = link_send_frame(s->link, LINK_DATA, LINK_CH_BODY, s->id, p, (size_t)n, err);
		if (r < 0)
			return r;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int link_end(struct link_stream *s, struct err *err)
{
	return link_send_frame(s->link, LINK_END, 0, s->id, NULL, 0, err);
}

int link_control(struct link_stream *s, json_t *event, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(event, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;
	bool fits;

	json_decref(event);
	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	assert(len <= LIMIT_CONTROL_BYTES); /* ours, never a client's */
	pthread_mutex_lock(&s->link->lock);
	fits = len <= s->tx_window;
	if (fits)
		s->tx_window -= len;
	pthread_mutex_unlock(&s->link->lock);
	if (!fits)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"the sandbox has not taken what was sent to it before");
	return link_send_frame(s->link, LINK_EVENT, 0, s->id, text, len, err);
}

int link_call(struct link *link, json_t *request, int64_t timeout_ms, int hangup_fd, json_t **ret,
	struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t deadline = clock_mono_ms() + timeout_ms;
	int r = link_open(link, request, &s, err);

	while (r == 0) {
		struct link_event ev;

		r = link_next(s, &ev, deadline, hangup_fd, err);
		if (r == 0)
			return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
				"timeout: the sandbox did not answer after %llds",
				(long long)(timeout_ms / 1000));
		if (r < 0)
			return r;
		r = 0;
		if (ev.type == LINK_CLOSE) {
			if (ret)
				*ret = json_incref(ev.json);
			link_event_done(s, &ev);
			return 0;
		}
		link_event_done(s, &ev);
	}
	return r;
}
