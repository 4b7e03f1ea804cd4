/* SPDX-License-Identifier: Apache-2.0 */
/* The guest end of the link: frames in and out, streams, windows, generations. */
/*
 * Theory of operation
 *
 * The descriptor is a virtio-serial port (or a socket in tests): a byte stream that outlives the
 * host's processes and the machine itself, for a snapshot may be taken and restored at any byte.
 * Both ends find each other again by HELLO. Here that means:
 *
 * - `synced` false: the bytes at hand may be the middle of anything. Everything is dropped up to
 *   the header of a HELLO, which has no variable part. The link starts like that, and goes back to
 *   it when bytes are no frame (a header that an earlier host left half-sent, completed by the
 *   zeros of the next one).
 * - HELLO, at any time: all streams are gone (their operations hear on_gone), unsent output is
 *   dropped, the answer goes out, numbers start again at 1.
 *
 * Output is one queue. DATA and EVENT enter it only while it is below OUT_HIGH, so that memory is
 * bounded whatever the streams do, and a stream whose host gives no credit takes no place in it.
 * Streams that want to send take turns, a frame each. CREDIT, CLOSE and HELLO always enter; while
 * the host does not read them, its requests are not read either (OUT_STOP), which bounds these.
 *
 * The host is trusted (it owns the machine). What is checked is checked for the sake of a clear
 * error, not as a defence.
 */
#include "link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

enum {
	OUT_HIGH = 256 * 1024,     /* producers wait above this */
	OUT_STOP = 1024 * 1024,    /* input waits above this */
	OUT_MAX = 8 * 1024 * 1024, /* OUT_STOP and all that one pass of input can cause */
	READS_PER_PASS = 64,       /* a port hands out at most 4 KiB per read */
	CREDIT_BATCH = LIMIT_STREAM_WINDOW / 4,
	HELLO_BYTES = LINK_NONCE_BYTES + 4,
	EVENT_IN_BYTES = 64 * 1024,
};

static size_t out_queued(const struct link *link)
{
	return link->out.len - link->out_pos;
}

static void out_clear(struct link *link)
{
	buf_clear(&link->out);
	link->out_pos = 0;
}

static void send_frame(struct link *link, enum link_type type, uint8_t arg, uint32_t stream,
	const void *data, size_t len)
{
	uint8_t header[LINK_HEADER_BYTES];

	link_encode_header(header, type, arg, stream, (uint32_t)len);
	if (buf_append(&link->out, header, sizeof(header)) < 0 ||
		buf_append(&link->out, data, len) < 0)
		abort(); /* out of memory: OUT_MAX cannot be reached */
}

/* --- streams ------------------------------------------------------------------------------- */

static struct stream *stream_new(struct link *link, uint32_t id)
{
	struct stream *s = xnew(struct stream);

	s->link = link;
	s->id = id;
	s->tx_window = LIMIT_STREAM_WINDOW;
	s->text = buf_init(LIMIT_OPEN_BYTES);
	list_append(&link->streams, &s->node);
	link->stream_count++;
	return s;
}

static void stream_free(struct stream *s)
{
	s->link->stream_count--;
	list_remove(&s->node);
	buf_done(&s->text);
	free(s);
}

static struct stream *stream_find(struct link *link, uint32_t id)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &link->streams) {
		struct stream *s = container_of(it, struct stream, node);

		if (s->id == id)
			return s;
	}
	return NULL;
}

size_t stream_room(const struct stream *s)
{
	if (out_queued(s->link) >= OUT_HIGH)
		return 0;
	return MIN(s->tx_window, (size_t)LIMIT_FRAME_BYTES);
}

void stream_want_room(struct stream *s)
{
	stream_want_bytes(s, 1);
}

void stream_want_bytes(struct stream *s, size_t len)
{
	assert(len > 0 && len <= LIMIT_FRAME_BYTES);
	s->wanted = len;
}

void stream_send(struct stream *s, enum link_type type, uint8_t arg, const void *data, size_t len)
{
	assert(len <= s->tx_window && (type == LINK_DATA || type == LINK_EVENT));
	s->tx_window -= len;
	send_frame(s->link, type, arg, s->id, data, len);
}

ssize_t stream_send_from(struct stream *s, uint8_t channel, int fd, int64_t offset, size_t len)
{
	struct buf *out = &s->link->out;
	char *frame;
	ssize_t n;

	assert(len <= s->tx_window);
	if (buf_reserve(out, LINK_HEADER_BYTES + len) < 0)
		abort(); /* out of memory, see send_frame() */
	frame = out->data + out->len;
	n = offset < 0 ? read(fd, frame + LINK_HEADER_BYTES, len)
		       : pread(fd, frame + LINK_HEADER_BYTES, len, offset);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	link_encode_header((uint8_t *)frame, LINK_DATA, channel, s->id, (uint32_t)n);
	out->len += LINK_HEADER_BYTES + (size_t)n;
	out->data[out->len] = '\0';
	s->tx_window -= (size_t)n;
	return n;
}

void stream_end(struct stream *s)
{
	send_frame(s->link, LINK_END, 0, s->id, "", 0);
}

const void *stream_sent(const struct stream *s, size_t n)
{
	const struct buf *out = &s->link->out;

	return out->data + out->len - n;
}

void stream_send_event(struct stream *s, json_t *event)
{
	_cleanup_free_ char *text = json_dumps(event, JSON_COMPACT);

	json_decref(event);
	if (!text)
		abort(); /* out of memory: the values were made by us and are valid */
	stream_send(s, LINK_EVENT, 0, text, strlen(text));
}

void stream_consumed(struct stream *s, size_t n)
{
	uint8_t credit[4];

	s->rx_consumed += n;
	assert(s->rx_consumed <= s->rx_held);
	if (s->rx_consumed < CREDIT_BATCH)
		return;
	link_put_u32(credit, (uint32_t)s->rx_consumed);
	send_frame(s->link, LINK_CREDIT, 0, s->id, credit, sizeof(credit));
	s->rx_held -= s->rx_consumed;
	s->rx_consumed = 0;
}

static void send_close(struct link *link, uint32_t id, json_t *answer)
{
	_cleanup_free_ char *text = json_dumps(answer, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;

	json_decref(answer);
	if (!text || len > LIMIT_FRAME_BYTES)
		abort(); /* out of memory, or an operation whose result has no bound: our bug */
	send_frame(link, LINK_CLOSE, 0, id, text, len);
}

static json_t *error_answer(const struct err *err)
{
	return json_pack("{s{ss ss}}", "error", "kind", link_error_kind(err->os), "message",
		err_msg(err));
}

void stream_close(struct stream *s, json_t *ok)
{
	send_close(s->link, s->id, json_pack("{so}", "ok", ok));
	stream_free(s);
}

void stream_fail(struct stream *s, const struct err *err)
{
	send_close(s->link, s->id, error_answer(err));
	stream_free(s);
}

void stream_failf(struct stream *s, int r, const char *fmt, ...)
{
	struct err err = {.kind = ERR_INTERNAL, .os = r};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err.msg, sizeof(err.msg), fmt, ap); /* a long message is cut */
	va_end(ap);
	err.msg[str_utf8_floor(err.msg, strlen(err.msg))] = '\0';
	stream_fail(s, &err);
}

const char *link_error_kind(int r)
{
	switch (-r) {
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
	case ESPIPE:
		return "invalid";
	case ENOENT:
	case ENXIO:
		return "not_found";
	case ESRCH:
		return "no_session";
	case ECHILD:
		return "no_process";
	case ENOTDIR:
		return "not_a_directory";
	case EISDIR:
		return "is_a_directory";
	case EEXIST:
	case ENOTEMPTY:
		return "exists";
	case EACCES:
	case EPERM:
	case EROFS:
		return "denied";
	case ENOSPC:
	case EDQUOT:
		return "no_space";
	case EBUSY:
	case ETXTBSY:
		return "busy";
	case ECONNREFUSED:
		return "refused";
	case ECONNRESET:
		return "reset";
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EFBIG:
		return "limit";
	case EOPNOTSUPP:
	case ENOSYS:
		return "unsupported";
	case EIO:
		return "io";
	default:
		return "internal";
	}
}

/* --- input --------------------------------------------------------------------------------- */

static void drop_streams(struct link *link)
{
	while (!list_empty(&link->streams)) {
		struct stream *s = container_of(link->streams.next, struct stream, node);

		if (s->ops && s->ops->on_gone)
			s->ops->on_gone(s);
		stream_free(s);
	}
}

static void handle_hello(struct link *link, const struct link_frame *f)
{
	uint8_t answer[HELLO_BYTES];

	drop_streams(link);
	out_clear(link);
	link->last_stream = 0;
	memcpy(answer, f->payload, LINK_NONCE_BYTES);
	link_put_u32(answer + LINK_NONCE_BYTES, LINK_VERSION);
	send_frame(link, LINK_HELLO, 0, 0, answer, sizeof(answer));
}

/* Ends a stream over the head of its operation. */
static void drop(struct stream *s, int r, const char *why)
{
	if (s->ops && s->ops->on_gone)
		s->ops->on_gone(s);
	stream_failf(s, r, "%s", why);
}

/* The last part of an OPEN is here: s->text is the request. */
static void open_stream(struct link *link, struct stream *s)
{
	json_t *request = json_loadb(s->text.data ? s->text.data : "", s->text.len, 0, NULL);

	buf_done(&s->text);
	s->text = buf_init(EVENT_IN_BYTES);
	s->opened = true;
	if (json_is_object(request))
		link->on_open(link, s, request);
	else
		stream_failf(s, -EINVAL, "the request is not a JSON object");
	json_decref(request);
}

static void handle_open(struct link *link, struct stream *s, const struct link_frame *f)
{
	if (!s) {
		if (f->stream <= link->last_stream)
			return; /* parts of a request that was refused */
		link->last_stream = f->stream;
		s = stream_new(link, f->stream);
		if (link->stream_count > LIMIT_STREAMS) {
			stream_failf(s, -EAGAIN, "more than %d streams at once", LIMIT_STREAMS);
			return;
		}
	}
	if (s->opened)
		return;
	if (buf_append(&s->text, f->payload, f->length) < 0) {
		stream_failf(s, -EINVAL, "the request is too long");
	} else if (!(f->arg & LINK_MORE)) {
		open_stream(link, s);
	}
}

/* Counts received bytes against the window; ends the stream when the host exceeded it. */
static bool receive(struct stream *s, size_t len)
{
	s->rx_held += len;
	if (s->rx_held <= LIMIT_STREAM_WINDOW)
		return true;
	drop(s, -EINVAL, "the stream's window was exceeded");
	return false;
}

static void handle_data(struct stream *s, const struct link_frame *f)
{
	if (!receive(s, f->length))
		return;
	if (s->ops && s->ops->on_data)
		s->ops->on_data(s, f->payload, f->length);
	else
		stream_consumed(s, f->length);
}

static void handle_event(struct stream *s, const struct link_frame *f)
{
	json_t *event;

	if (!receive(s, f->length))
		return;
	stream_consumed(s, f->length);
	if (buf_append(&s->text, f->payload, f->length) < 0)
		buf_clear(&s->text); /* too long: its end will be no JSON and is ignored */
	if (f->arg & LINK_MORE)
		return;
	event = json_loadb(s->text.data ? s->text.data : "", s->text.len, 0, NULL);
	buf_clear(&s->text);
	if (json_is_object(event) && s->ops && s->ops->on_event)
		s->ops->on_event(s, event);
	json_decref(event);
}

static void handle_credit(struct stream *s, const struct link_frame *f)
{
	if (f->length == 4)
		s->tx_window =
			MIN(s->tx_window + link_get_u32(f->payload), (size_t)LIMIT_STREAM_WINDOW);
}

static void handle_cancel(struct stream *s)
{
	if (s->ops && s->ops->on_cancel)
		s->ops->on_cancel(s);
	else
		drop(s, -ECANCELED, "cancelled");
}

static void handle_frame(struct link *link, const struct link_frame *f)
{
	struct stream *s = stream_find(link, f->stream);

	if (!s && f->type != LINK_OPEN && f->type != LINK_HELLO)
		return; /* crossed with our CLOSE */
	switch (f->type) {
	case LINK_HELLO:
		if (f->length == HELLO_BYTES)
			handle_hello(link, f);
		break;
	case LINK_OPEN:
		handle_open(link, s, f);
		break;
	case LINK_DATA:
		handle_data(s, f);
		break;
	case LINK_EVENT:
		handle_event(s, f);
		break;
	case LINK_END:
		if (s->ops && s->ops->on_end)
			s->ops->on_end(s);
		break;
	case LINK_CREDIT:
		handle_credit(s, f);
		break;
	case LINK_CLOSE:
		handle_cancel(s);
		break;
	case _LINK_TYPE_MAX:
		break;
	}
}

/* Drops input up to a HELLO's header, or all of it but a possible beginning of one. */
static size_t find_hello(struct link *link, const uint8_t *data, size_t len)
{
	uint8_t header[LINK_HEADER_BYTES];
	const uint8_t *at;

	link_encode_header(header, LINK_HELLO, 0, 0, HELLO_BYTES);
	at = len ? memmem(data, len, header, sizeof(header)) : NULL;
	if (at) {
		link->synced = true;
		return (size_t)(at - data);
	}
	return len < sizeof(header) ? 0 : len - sizeof(header) + 1;
}

static void parse_input(struct link *link)
{
	size_t pos = 0;

	for (;;) {
		struct link_frame f;
		size_t used;
		int r;

		if (!link->synced) {
			pos += find_hello(link, link->in + pos, link->in_len - pos);
			if (!link->synced)
				break;
		}
		r = link_decode(link->in + pos, link->in_len - pos, &f, &used);
		if (r < 0) {
			link->synced = false;
			pos++;
			continue;
		}
		pos += used;
		if (r == 0)
			break;
		handle_frame(link, &f);
	}
	link->in_len -= pos;
	if (pos)
		memmove(link->in, link->in + pos, link->in_len);
}

/* --- the descriptor ------------------------------------------------------------------------ */

/*
 * A port without a host reports EPOLLHUP for as long as that lasts: edge-triggered, it is heard
 * once, and again when a host connects.
 */
static void update_events(struct link *link)
{
	uint32_t events = link->hung_up ? EPOLLET : 0;

	if (out_queued(link) < OUT_STOP)
		events |= EPOLLIN;
	if (out_queued(link) > 0)
		events |= EPOLLOUT;
	source_set(&link->source, events);
}

static void read_input(struct link *link)
{
	for (int i = 0; i < READS_PER_PASS && out_queued(link) < OUT_STOP; i++) {
		ssize_t n =
			read(link->fd, link->in + link->in_len, sizeof(link->in) - link->in_len);

		if (n < 0)
			return; /* EAGAIN; other errors do not exist for ports and socket pairs */
		if (n == 0) {
			link->hung_up = true;
			link->on_hangup(link);
			return;
		}
		link->in_len += (size_t)n;
		parse_input(link);
	}
}

static void on_event(struct source *src, uint32_t revents)
{
	struct link *link = container_of(src, struct link, source);

	link->hung_up = revents & EPOLLHUP;
	read_input(link);
}

static void write_output(struct link *link)
{
	while (out_queued(link)) {
		ssize_t n = write(link->fd, link->out.data + link->out_pos, out_queued(link));

		if (n < 0)
			break; /* EAGAIN, or no host (EPIPE): the next HELLO clears the queue */
		link->out_pos += (size_t)n;
	}
	if (link->out_pos >= OUT_HIGH || out_queued(link) == 0) {
		buf_consume(&link->out, link->out_pos);
		link->out_pos = 0;
	}
}

/* Gives every stream that wants to send one turn, those that waited longest first. False when there
 * was none. */
static bool offer_room(struct link *link)
{
	struct list *it, *tmp;
	struct list turn;
	bool offered = false;

	list_init(&turn);
	list_for_each(it, tmp, &link->streams) {
		struct stream *s = container_of(it, struct stream, node);

		if (!s->wanted || stream_room(s) < s->wanted)
			continue;
		list_remove(&s->node);
		list_append(&turn, &s->node);
	}
	while (!list_empty(&turn)) {
		struct stream *s = container_of(turn.next, struct stream, node);

		list_remove(&s->node);
		list_append(&link->streams, &s->node);
		if (stream_room(s) < s->wanted)
			continue;
		s->wanted = 0;
		offered = true;
		s->ops->on_room(s);
	}
	return offered;
}

void link_flush(struct link *link)
{
	write_output(link);
	while (offer_room(link))
		;
	update_events(link);
}

int link_open(struct link *link, struct loop *loop, int fd,
	void (*on_open)(struct link *link, struct stream *s, const json_t *request),
	void (*on_hangup)(struct link *link))
{
	*link = (struct link){
		.loop = loop,
		.fd = fd,
		.out = buf_init(OUT_MAX),
		.on_open = on_open,
		.on_hangup = on_hangup,
	};
	list_init(&link->streams);
	return fd < 0 ? 0 : source_attach(&link->source, loop, fd, EPOLLIN, on_event);
}

void link_replace(struct link *link, int fd)
{
	source_detach(&link->source);
	cleanup_close(&link->fd);
	link->fd = fd;
	link->in_len = 0;
	link->synced = link->hung_up = false;
	out_clear(link);
	if (source_attach(&link->source, link->loop, fd, EPOLLIN, on_event) < 0)
		abort(); /* out of memory */
}

void link_done(struct link *link)
{
	drop_streams(link);
	source_detach(&link->source);
	cleanup_close(&link->fd);
	link->fd = -1;
	buf_done(&link->out);
}
