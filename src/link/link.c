/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of the guest link: streams over one socket (api/link.md).
 *
 * Theory of operation
 * -------------------
 * Receiving: the hub's thread reads the socket, takes frames off and appends each as a `chunk` to the
 * queue of its stream, under `lock`; then it signals the stream's eventfd. It never waits: a guest
 * that sends more than a stream's window breaks the protocol and loses the link, so that a queue never
 * holds more than LIMIT_STREAM_WINDOW and a CLOSE.
 * Sending: any thread, one frame at a time under `tx_lock`. Window that the guest gave is in
 * `tx_window` of the stream (under `lock`).
 * Waiting: a thread waits on its stream's eventfd and, if it serves a client, on that client's socket.
 * Parts of a long event are put together in the waiting thread, which gives window back for each part;
 * so only a thread that listens pays for what its guest says.
 *
 * Opening: the guest drops an OPEN whose number is not above all before it, so numbering a stream and
 * sending its OPEN is one step, under `open_lock`.
 *
 * Lock order: open_lock before tx_lock and lock, which are never held together.
 */
#include "link/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

enum {
	/* Read at once; two frames, so that the rest of a cut one always fits. */
	RX_BYTES = 2 * (LINK_HEADER_BYTES + LIMIT_FRAME_BYTES),
	/* What an earlier generation may have left in the way before the answer to our HELLO. */
	RESYNC_BYTES_MAX = 16 << 20,
	/* A guest that has not taken a frame after so long is dead: the agent reads whatever else happens. */
	TX_FRAME_MS = 30000,
	HELLO_BYTES = LINK_NONCE_BYTES + 4,
	/* Of all queues of a link: twice what full windows hold, so that only a guest that fills many windows
	 * with crumbs (each costs a chunk of its own) gets there. */
	QUEUED_BYTES_MAX = 2 * LIMIT_STREAMS * LIMIT_STREAM_WINDOW,
	MALLOC_OVERHEAD_BYTES = 16,
};

struct chunk {
	struct chunk *next;
	enum link_type type;
	uint8_t arg;
	uint32_t len;
	uint8_t data[];
};

struct link_stream {
	struct link *link; /* a reference */
	uint32_t id;
	int event_fd; /* owned; signalled when anything below changes */
	/* Under link->lock: */
	struct chunk *head, **tail;
	size_t rx_open;   /* bytes that the guest sent and we have not given back */
	size_t tx_window; /* bytes that we may send */
	bool ended;       /* the guest's END is queued or was read */
	bool closed;      /* the guest's CLOSE is queued or was read */
	/* The owner's own: */
	size_t rx_due;        /* consumed, not yet told to the guest */
	struct buf event_buf; /* parts of an event so far */
	size_t event_lost;    /* bytes of an event that is too long */
};

struct link {
	atomic_uint refs;
	int fd;
	struct link_watch *watch;
	pthread_mutex_t open_lock;
	pthread_mutex_t tx_lock;
	pthread_mutex_t lock;
	/* Under lock: */
	struct link_stream *streams[LIMIT_STREAMS];
	uint32_t next_id;
	size_t queued; /* memory that the queues of all streams take */
	bool dead;
	char why[256];
	link_dead_fn *on_dead; /* NULL: nobody wants to know */
	void *dead_user;
	/* The hub thread's own: */
	uint8_t hello[LINK_HEADER_BYTES + HELLO_BYTES]; /* the answer that we wait for */
	bool syncing;
	size_t skipped;
	struct buf rx;
};

static void signal_stream(struct link_stream *s)
{
	uint64_t one = 1;

	(void)!write(s->event_fd, &one, sizeof(one)); /* full is as good as signalled */
}

void link_fail(struct link *link, const char *why)
{
	pthread_mutex_lock(&link->lock);
	if (!link->dead) {
		link->dead = true;
		(void)snprintf(link->why, sizeof(link->why), "%s", why);
		(void)shutdown(link->fd, SHUT_RDWR);
		if (link->on_dead)
			link->on_dead(link->dead_user, link->why);
	}
	for (size_t i = 0; i < LIMIT_STREAMS; i++) {
		if (link->streams[i])
			signal_stream(link->streams[i]);
	}
	pthread_mutex_unlock(&link->lock);
}

void link_on_dead(struct link *link, link_dead_fn *fn, void *user)
{
	pthread_mutex_lock(&link->lock);
	link->on_dead = fn;
	link->dead_user = user;
	if (fn && link->dead)
		fn(user, link->why);
	pthread_mutex_unlock(&link->lock);
}

static int err_dead(struct link *link, struct err *err)
{
	char why[sizeof(link->why)];

	pthread_mutex_lock(&link->lock);
	memcpy(why, link->why, sizeof(why));
	pthread_mutex_unlock(&link->lock);
	return err_set(err, ERR_SANDBOX_FAILED, -EPIPE, "the sandbox is gone: %s", why);
}

/* ---- receiving, in the hub's thread ---- */

static struct link_stream *find_stream(struct link *link, uint32_t id)
{
	for (size_t i = 0; i < LIMIT_STREAMS; i++) {
		if (link->streams[i] && link->streams[i]->id == id)
			return link->streams[i];
	}
	return NULL;
}

static int take_credit(struct link_stream *s, const struct link_frame *f)
{
	uint32_t n;

	if (f->length != 4)
		return -EPROTO;
	n = link_get_u32(f->payload);
	if (n > LIMIT_STREAM_WINDOW - s->tx_window)
		return -EPROTO;
	s->tx_window += n;
	return 0;
}

static size_t chunk_cost(size_t len)
{
	return sizeof(struct chunk) + MALLOC_OVERHEAD_BYTES + len;
}

static int queue_chunk(struct link_stream *s, const struct link_frame *f)
{
	struct chunk *c;

	if (s->closed)
		return -EPROTO;
	/* What costs the guest no window may not fill the queue either. */
	if (f->type == LINK_END) {
		if (s->ended || f->length)
			return -EPROTO;
		s->ended = true;
	} else if (f->type != LINK_CLOSE) {
		if (f->length == 0 && f->type == LINK_DATA)
			return 0;
		if (f->length == 0 || f->length > LIMIT_STREAM_WINDOW - s->rx_open)
			return -EPROTO;
		s->rx_open += f->length;
	}
	if (chunk_cost(f->length) > QUEUED_BYTES_MAX - s->link->queued)
		return -EPROTO;
	c = malloc(sizeof(*c) + f->length);
	if (!c)
		return -ENOMEM;
	s->link->queued += chunk_cost(f->length);
	c->next = NULL;
	c->type = f->type;
	c->arg = f->arg;
	c->len = f->length;
	if (f->length)
		memcpy(c->data, f->payload, f->length);
	*s->tail = c;
	s->tail = &c->next;
	s->closed = f->type == LINK_CLOSE;
	return 0;
}

static int dispatch(struct link *link, const struct link_frame *f)
{
	struct link_stream *s;
	int r = 0;

	if (f->type == LINK_HELLO || f->type == LINK_OPEN)
		return -EPROTO;
	pthread_mutex_lock(&link->lock);
	s = find_stream(link, f->stream);
	if (s) { /* else it crossed with our free */
		r = f->type == LINK_CREDIT ? take_credit(s, f) : queue_chunk(s, f);
		signal_stream(s);
	}
	pthread_mutex_unlock(&link->lock);
	return r;
}

/* Drops all before the answer to our HELLO. 1: found, 0: not yet. */
static int resync(struct link *link)
{
	struct buf *rx = &link->rx;
	uint8_t *at = rx->len ? memmem(rx->data, rx->len, link->hello, sizeof(link->hello)) : NULL;
	size_t drop;

	if (at) {
		buf_consume(rx, (size_t)(at - (uint8_t *)rx->data) + sizeof(link->hello));
		link->syncing = false;
		return 1;
	}
	drop = rx->len < sizeof(link->hello) ? 0 : rx->len - sizeof(link->hello) + 1;
	link->skipped += drop;
	buf_consume(rx, drop);
	return link->skipped > RESYNC_BYTES_MAX ? -EPROTO : 0;
}

static int process(struct link *link)
{
	size_t done = 0;
	int r;

	if (link->syncing) {
		r = resync(link);
		if (r <= 0)
			return r;
	}
	for (;;) {
		struct link_frame f;
		size_t used;

		r = link_decode((const uint8_t *)link->rx.data + done, link->rx.len - done, &f,
			&used);
		if (r < 0)
			return r;
		done += used;
		if (r == 0)
			break;
		r = dispatch(link, &f);
		if (r < 0)
			return r;
	}
	buf_consume(&link->rx, done);
	return 0;
}

static void on_readable(void *user)
{
	struct link *link = user;
	ssize_t n;
	int r = buf_reserve(&link->rx, RX_BYTES - link->rx.len);

	if (r == 0) {
		n = recv(link->fd, link->rx.data + link->rx.len, RX_BYTES - link->rx.len,
			MSG_DONTWAIT);
		if (n > 0) {
			link->rx.len += (size_t)n;
			r = process(link);
		} else if (n == 0) {
			link_fail(link, "its machine closed the link");
			return;
		} else if (errno != EAGAIN && errno != EINTR) {
			r = -errno;
		}
	}
	if (r < 0) {
		link_fail(link,
			r == -EPROTO ? "its guest agent broke the link's protocol" : strerror(-r));
		return;
	}
	if (link->rx.len == 0)
		buf_done(&link->rx); /* idle links hold no memory */
	link_hub_rearm(link->watch);
}

/* ---- sending ---- */

/* Writes it all, within TX_FRAME_MS: a guest that takes a byte now and then holds nobody for ever. tx_lock is
 * held. */
static int write_all(int fd, struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
	int64_t deadline = clock_mono_ms() + TX_FRAME_MS;

	while (msg.msg_iovlen > 0) {
		ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};
			int64_t left = deadline - clock_mono_ms();

			if (left <= 0 || poll(&p, 1, (int)left) == 0)
				return -ETIMEDOUT;
			continue;
		}
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		while (msg.msg_iovlen > 0 && (size_t)sent >= msg.msg_iov->iov_len) {
			sent -= (ssize_t)msg.msg_iov->iov_len;
			msg.msg_iov++;
			msg.msg_iovlen--;
		}
		if (msg.msg_iovlen > 0) {
			msg.msg_iov->iov_base = (uint8_t *)msg.msg_iov->iov_base + sent;
			msg.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

static int send_frame(struct link *link, enum link_type type, uint8_t arg, uint32_t stream,
	const void *payload, size_t len, struct err *err)
{
	uint8_t header[LINK_HEADER_BYTES];
	struct iovec iov[2] = {
		{.iov_base = header, .iov_len = sizeof(header)},
		{.iov_base = (void *)(uintptr_t)payload, .iov_len = len}, /* only read from */
	};
	int r;

	link_encode_header(header, type, arg, stream, (uint32_t)len);
	pthread_mutex_lock(&link->tx_lock);
	r = write_all(link->fd, iov, len ? 2 : 1);
	pthread_mutex_unlock(&link->tx_lock);
	if (r < 0) {
		link_fail(link,
			r == -ETIMEDOUT ? "its guest agent does not answer"
					: "its machine closed the link");
		return err_dead(link, err);
	}
	return 0;
}

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

		r = send_frame(link, LINK_OPEN, sent + n < len ? LINK_MORE : 0, stream, text + sent,
			n, err);
		sent += n;
	}
	return r;
}

/* ---- links ---- */

static int send_hello(struct link *link, bool padded, struct err *err)
{
	static const uint8_t zeros[LIMIT_FRAME_BYTES + LINK_HEADER_BYTES];
	uint8_t *hello = link->hello + LINK_HEADER_BYTES;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)zeros, .iov_len = sizeof(zeros)};
	int r = 0;

	link_encode_header(link->hello, LINK_HELLO, 0, 0, HELLO_BYTES);
	randombytes_buf(hello, LINK_NONCE_BYTES);
	link_put_u32(hello + LINK_NONCE_BYTES, LINK_VERSION);
	if (padded)
		r = write_all(link->fd, &iov, 1);
	if (r < 0)
		return err_set_errno(err, r, "can't write to the link");
	return send_frame(link, LINK_HELLO, 0, 0, hello, HELLO_BYTES, err);
}

int link_new(struct link_hub *hub, int fd, bool padded, struct link **ret, struct err *err)
{
	struct link *link = xnew(struct link);
	int r;

	atomic_init(&link->refs, 1);
	link->fd = fd;
	link->next_id = 1;
	link->syncing = true;
	link->rx = buf_init(RX_BYTES);
	(void)pthread_mutex_init(&link->open_lock, NULL); /* these never fail on Linux */
	(void)pthread_mutex_init(&link->lock, NULL);
	(void)pthread_mutex_init(&link->tx_lock, NULL);
	r = send_hello(link, padded, err);
	if (r == 0)
		r = link_hub_watch(hub, fd, on_readable, link, &link->watch, err);
	if (r < 0) {
		link_unref(link);
		return r;
	}
	*ret = link;
	return 0;
}

struct link *link_ref(struct link *link)
{
	atomic_fetch_add(&link->refs, 1);
	return link;
}

struct link *link_unref(struct link *link)
{
	if (!link || atomic_fetch_sub(&link->refs, 1) > 1)
		return NULL;
	link->watch = link_hub_unwatch(link->watch);
	(void)close(link->fd);
	buf_done(&link->rx);
	pthread_mutex_destroy(&link->open_lock);
	pthread_mutex_destroy(&link->lock);
	pthread_mutex_destroy(&link->tx_lock);
	free(link);
	return NULL;
}

/* ---- streams ---- */

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
		link->queued -= chunk_cost(c->len);
	pthread_mutex_unlock(&link->lock);
	while (s->head) {
		struct chunk *c = s->head;

		s->head = c->next;
		free(c);
	}
	cleanup_close(&s->event_fd);
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
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0) {
		json_decref(request);
		r = err_set_errno(err, -errno, "can't open a stream to the sandbox");
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
	(void)send_frame(s->link, LINK_CLOSE, 0, s->id, NULL, 0, NULL); /* dead is cancelled too */
}

/* Waits for a signal of the stream. 0, -ETIMEDOUT, -ECONNRESET. */
static int wait_signal(struct link_stream *s, int64_t deadline_ms, int hangup_fd)
{
	struct pollfd p[2] = {
		{.fd = s->event_fd, .events = POLLIN},
		{.fd = hangup_fd, .events = POLLRDHUP},
	};
	int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_mono_ms();
	uint64_t n;

	if (deadline_ms >= 0 && left <= 0)
		return -ETIMEDOUT;
	if (poll(p, 2, (int)MIN(left, 3600000)) < 0 && errno != EINTR)
		return -errno;
	if (p[1].revents)
		return -ECONNRESET;
	(void)!read(s->event_fd, &n, sizeof(n)); /* nothing to read is a wait that ended early */
	return 0;
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
		link->queued -= chunk_cost(c->len);
	}
	pthread_mutex_unlock(&link->lock);
	if (!c)
		return dead ? err_dead(link, err) : 0;
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
	(void)send_frame(s->link, LINK_CREDIT, 0, s->id, payload, sizeof(payload), NULL);
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
		{"not_a_directory", ERR_INVALID},
		{"is_a_directory", ERR_INVALID},
		{"exists", ERR_CONFLICT},
		{"denied", ERR_INVALID},
		{"no_space", ERR_NO_SPACE},
		{"busy", ERR_CONFLICT},
		{"limit", ERR_TOO_MANY},
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
	return err_dead(link, err);
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

/*
 * How many values a JSON text holds at least: the separators and openings outside of its strings. Each costs
 * up to 100 times its text in memory once it is parsed, so this is bounded before.
 */
static size_t count_values(const char *text, size_t len)
{
	bool quoted = false;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
			n++;
	}
	return n;
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
		count_values(s->event_buf.data, s->event_buf.len) > LIMIT_EVENT_VALUES)
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
		r = wait_signal(s, deadline_ms, hangup_fd);
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
		n = dead || closed || s->tx_window <= LIMIT_CONTROL_BYTES
			? 0
			: MIN(want, s->tx_window - LIMIT_CONTROL_BYTES);
		s->tx_window -= n;
		pthread_mutex_unlock(&link->lock);
		if (dead)
			return err_dead(link, err);
		if (closed)
			return err_set(err, ERR_INTERNAL, -ECANCELED,
				"the sandbox stopped listening");
		if (n > 0)
			return (ssize_t)n;
		r = wait_signal(s, deadline_ms, hangup_fd);
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
		r = send_frame(s->link, LINK_DATA, LINK_CH_BODY, s->id, p, (size_t)n, err);
		if (r < 0)
			return r;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int link_end(struct link_stream *s, struct err *err)
{
	return send_frame(s->link, LINK_END, 0, s->id, NULL, 0, err);
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
	return send_frame(s->link, LINK_EVENT, 0, s->id, text, len, err);
}

int link_call(struct link *link, json_t *request, int64_t timeout_ms, json_t **ret, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t deadline = clock_mono_ms() + timeout_ms;
	int r = link_open(link, request, &s, err);

	while (r == 0) {
		struct link_event ev;

		r = link_next(s, &ev, deadline, -1, err);
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
