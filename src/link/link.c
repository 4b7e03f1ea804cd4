/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of the guest link: the socket and its frames (api/link.md).
 *
 * Theory of operation
 * -------------------
 * Receiving: the hub's thread reads the socket, takes frames off and appends each as a `chunk` to the
 * queue of its stream, under `lock`; then it rings the stream's bell. It never waits: a guest
 * that sends more than a stream's window breaks the protocol and loses the link, so that a queue never
 * holds more than LIMIT_STREAM_WINDOW and a CLOSE.
 * Sending: any thread, one frame at a time under `tx_lock`. Window that the guest gave is in
 * `tx_window` of the stream (under `lock`).
 * Waiting: a thread waits for its stream's bell and, if it serves a client, on that client's socket.
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
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bell.h"
#include "base/clock.h"
#include "link/link_internal.h"

enum {
	/* Read at once; two frames, so that the rest of a cut one always fits. */
	RX_BYTES = 2 * (LINK_HEADER_BYTES + LIMIT_FRAME_BYTES),
	/* What an earlier generation may have left in the way before the answer to our HELLO. */
	RESYNC_BYTES_MAX = 16 << 20,
	/* A guest that has not taken a frame after so long is dead: the agent reads whatever else happens. */
	TX_FRAME_MS = 30000,
	/* Of all queues of a link: a third more than what full windows hold, so that only a guest that fills many
	 * windows with crumbs (each costs a chunk of its own) gets there. */
	QUEUED_BYTES_MAX = LIMIT_STREAMS / 3 * 4 * LIMIT_STREAM_WINDOW,
	MALLOC_OVERHEAD_BYTES = 16,
};

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
			bell_ring(link->streams[i]->bell);
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

int link_err_dead(struct link *link, struct err *err)
{
	char why[sizeof(link->why)];

	pthread_mutex_lock(&link->lock);
	memcpy(why, link->why, sizeof(why));
	pthread_mutex_unlock(&link->lock);
	return err_set(err, ERR_SANDBOX_FAILED, -EPIPE, "the sandbox is gone: %s; create a new one",
		why);
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
	if (n == 0 || n > LIMIT_STREAM_WINDOW - s->tx_window)
		return -EPROTO;
	s->tx_window += n;
	return 0;
}

size_t link_chunk_cost(size_t len)
{
	return sizeof(struct chunk) + MALLOC_OVERHEAD_BYTES + len;
}

static int queue_chunk(struct link_stream *s, const struct link_frame *f)
{
	struct chunk *c;

	if (s->closed)
		return -EPROTO;
	/* What costs the guest no window may neither fill the queue nor keep us busy. */
	if (f->type == LINK_END) {
		if (s->ended || f->length)
			return -EPROTO;
		s->ended = true;
	} else if (f->type != LINK_CLOSE) {
		if (f->length == 0 || f->length > LIMIT_STREAM_WINDOW - s->rx_open)
			return -EPROTO;
		s->rx_open += f->length;
	}
	if (link_chunk_cost(f->length) > QUEUED_BYTES_MAX - s->link->queued)
		return -EPROTO;
	c = malloc(sizeof(*c) + f->length);
	if (!c)
		return -ENOMEM;
	s->link->queued += link_chunk_cost(f->length);
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
		bell_ring(s->bell);
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

int link_send_frame(struct link *link, enum link_type type, uint8_t arg, uint32_t stream,
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
		return link_err_dead(link, err);
	}
	return 0;
}

/* ---- links ---- */

static int send_hello(struct link *link, bool padded, struct err *err)
{
	static const uint8_t zeros[LIMIT_FRAME_BYTES + LINK_HEADER_BYTES];
	uint8_t *hello = link->hello + LINK_HEADER_BYTES;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)zeros, .iov_len = sizeof(zeros)};
	int r = 0;

	link_encode_header(link->hello, LINK_HELLO, 0, 0, LINK_HELLO_BYTES);
	randombytes_buf(hello, LINK_NONCE_BYTES);
	link_put_u32(hello + LINK_NONCE_BYTES, LINK_VERSION);
	if (padded)
		r = write_all(link->fd, &iov, 1);
	if (r < 0)
		return err_set_errno(err, r, "can't write to the link");
	return link_send_frame(link, LINK_HELLO, 0, 0, hello, LINK_HELLO_BYTES, err);
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
