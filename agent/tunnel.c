/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers in this guest: bytes both ways, each with its own end. */
/*
 * Theory of operation
 *
 *	connecting ──EVENT──▶ open ──both directions over──▶ closed
 *
 * - connecting: to 127.0.0.1, and where nothing listens there to ::1. The host may send DATA already; it waits here.
 * - open: the socket is read only while the stream has room, and DATA is given back to the host's window only when the
 *   server took it, so either side slows the other down and nobody else. The end of either direction is passed on by
 *   itself: END becomes a FIN, a FIN becomes END.
 * - A server that takes no more bytes may still have an answer under way: what the host sends then goes nowhere, and
 *   the stream goes on until the server's own end.
 * - A host that cancels or is gone before its END resets the connection, for a server must not take what it has for all
 *   of it; a server that resets it makes the stream fail, for the same reason.
 */
#include "tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"

enum { CONNECT_MS = 10000 };

struct tunnel {
	struct agent *agent;
	struct stream *stream;
	uint16_t port;
	struct source source;
	int fd;            /* owned; -1 between two attempts */
	bool v6;           /* the second attempt */
	struct timer late; /* of the attempts */
	bool connected;
	struct buf in;   /* from the host, not yet written */
	bool host_ended; /* END was received */
	bool in_over;    /* the socket takes no more bytes */
	bool out_over;   /* END was sent */
	bool broken;     /* a write heard of a reset, and no read will */
	bool wants_room;
};

static void close_socket(struct tunnel *t)
{
	source_detach(&t->source);
	cleanup_close(&t->fd);
	t->fd = -1;
}

static void tunnel_free(struct tunnel *t)
{
	close_socket(t);
	timer_stop(&t->late);
	buf_done(&t->in);
	t->agent->tunnels--;
	free(t);
}

static void fail(struct tunnel *t, int r, const char *what)
{
	stream_failf(t->stream, r, "port %d: %s", t->port, what);
	tunnel_free(t);
}

static void fail_reset(struct tunnel *t)
{
	fail(t, -ECONNRESET, "the server broke the connection off");
}

/* Watches for what can be done next. Without anything to be done, only for the connection's end by a reset. */
static void watch(struct tunnel *t)
{
	uint32_t events = 0;

	if (!t->connected || t->in.len)
		events |= EPOLLOUT;
	if (t->connected && !t->out_over && !t->wants_room)
		events |= EPOLLIN;
	source_set(&t->source, events ? events : EPOLLET);
}

/* --- open ------------------------------------------------------------------------------------ */

static void write_to_server(struct tunnel *t)
{
	ssize_t n = 0;

	if (t->in.len && !t->in_over)
		n = send(t->fd, t->in.data, t->in.len, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN) {
		t->in_over = true;
		t->broken = errno == ECONNRESET;
	}
	if (t->in_over)
		n = (ssize_t)t->in.len; /* to nowhere */
	if (n > 0) {
		buf_consume(&t->in, (size_t)n);
		stream_consumed(t->stream, (size_t)n);
	}
	if (t->host_ended && t->in.len == 0 && !t->in_over) {
		t->in_over = true;
		(void)shutdown(t->fd, SHUT_WR); /* it may be over by itself */
	}
}

/* False where the connection broke, and the tunnel is gone. */
static bool read_from_server(struct tunnel *t)
{
	size_t room = stream_room(t->stream);
	ssize_t n;

	if (room == 0) {
		t->wants_room = true;
		stream_want_room(t->stream);
		return true;
	}
	n = stream_send_from(t->stream, LINK_CH_BODY, t->fd, -1, room);
	if (n > 0 || n == -EAGAIN)
		return true;
	if (n < 0 || t->broken) {
		fail_reset(t);
		return false;
	}
	t->out_over = true;
	stream_end(t->stream);
	return true;
}

static void settle(struct tunnel *t)
{
	if (t->connected && t->out_over && t->in_over) {
		stream_close(t->stream, json_object());
		tunnel_free(t);
		return;
	}
	watch(t);
}

static void on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct tunnel *t = s->owner;

	if (buf_append(&t->in, data, len) < 0)
		abort(); /* out of memory: the window bounds it */
	if (t->connected)
		write_to_server(t);
	settle(t);
}

static void on_end(struct stream *s)
{
	struct tunnel *t = s->owner;

	t->host_ended = true;
	if (t->connected)
		write_to_server(t);
	settle(t);
}

static void on_room(struct stream *s)
{
	struct tunnel *t = s->owner;

	t->wants_room = false;
	watch(t);
}

static void on_gone(struct stream *s)
{
	static const struct linger reset = {.l_onoff = 1};
	struct tunnel *t = s->owner;

	if (!t->host_ended || t->in.len)
		(void)setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	tunnel_free(t);
}

static const struct stream_ops ops = {
	.on_data = on_data,
	.on_end = on_end,
	.on_room = on_room,
	.on_gone = on_gone,
};

/* --- connecting ------------------------------------------------------------------------------ */

static void on_socket(struct source *src, uint32_t revents);

/* Begins an attempt. 0, or a negative errno when it has failed already. */
static int begin_attempt(struct tunnel *t)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(t->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(t->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	const struct sockaddr *to =
		t->v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
	int on = 1;

	t->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return -errno;
	(void)setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* a matter of speed */
	if (connect(t->fd, to, t->v6 ? sizeof(v6) : sizeof(v4)) < 0 && errno != EINPROGRESS)
		return -errno;
	return source_attach(&t->source, &t->agent->loop, t->fd, EPOLLOUT, on_socket);
}

/* The attempt has failed: tries the other address, or gives up. */
static void attempt_failed(struct tunnel *t, int r)
{
	close_socket(t);
	if (!t->v6) {
		t->v6 = true;
		/* A guest without IPv6 has nothing that listens there. */
		if (begin_attempt(t) == 0)
			return;
	}
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		fail(t, r, strerror(-r));
	else
		fail(t, -ECONNREFUSED, "nothing listens there");
}

static void on_late(struct timer *timer)
{
	fail(container_of(timer, struct tunnel, late), -ECONNREFUSED,
		"the server takes no connection");
}

static void on_attempt(struct tunnel *t)
{
	socklen_t len = sizeof(int);
	int error = 0;

	(void)getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		attempt_failed(t, -error);
		return;
	}
	timer_stop(&t->late);
	t->connected = true;
	stream_send_event(t->stream, json_pack("{sb}", "connected", 1));
	write_to_server(t);
	settle(t);
}

static void on_socket(struct source *src, uint32_t revents)
{
	struct tunnel *t = container_of(src, struct tunnel, source);

	if (!t->connected) {
		on_attempt(t);
		return;
	}
	if (t->out_over && (revents & EPOLLERR)) {
		fail_reset(t);
		return;
	}
	if (t->in.len)
		write_to_server(t);
	if ((revents & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !t->out_over && !read_from_server(t))
		return;
	settle(t);
}

void tunnel_open(struct agent *agent, struct stream *s, const json_t *request)
{
	json_int_t port = json_integer_value(json_object_get(request, "port"));
	struct tunnel *t;
	int r;

	if (port < 1 || port > UINT16_MAX) {
		stream_failf(s, -EINVAL, "\"port\" must be a number from 1 to 65535");
		return;
	}
	if (agent->tunnels >= LIMIT_TUNNELS) {
		stream_failf(s, -EAGAIN, "%d connections to ports are open already", LIMIT_TUNNELS);
		return;
	}
	t = xnew(struct tunnel);
	agent->tunnels++;
	t->agent = agent;
	t->stream = s;
	t->port = (uint16_t)port;
	t->in = buf_init(LIMIT_STREAM_WINDOW);
	timer_init(&t->late, on_late);
	s->ops = &ops;
	s->owner = t;
	timer_start(&t->late, &agent->loop, CONNECT_MS);
	r = begin_attempt(t);
	if (r < 0)
		attempt_failed(t, r);
}
