/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between a client's socket and a stream of the link. */
/*
 * Theory of operation
 * -------------------
 * Each turn moves what can be moved without waiting, up from the client as far as the stream has room, down to it as far
 * as the socket takes it; a turn that moved nothing waits for what it lacked. So a side that does not read stops the other
 * one, and nobody keeps more than one frame.
 *
 * The end of either direction is passed on by itself. A client that has ended its own may be gone altogether, which no
 * socket tells: it is waited for LINGER_MS after the last byte.
 */
#include "http/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/limits.h"

enum { LINGER_MS = 10000 };

struct bridge {
	struct link_stream *stream; /* borrowed */
	int fd;                     /* borrowed */
	struct link_event ev;       /* DATA on its way down */
	const char *down;           /* of that, or of the caller's: not yet sent */
	size_t down_len;
	bool up_over;
	bool down_over;
	bool moved; /* in this turn */
};

static int send_up(struct bridge *b, const void *data, size_t len)
{
	int r;

	if (len == 0)
		return 0;
	b->moved = true;
	r = link_send(b->stream, data, len, -1, b->fd, NULL);
	if (r != -ECANCELED)
		return r;
	b->up_over = true; /* the other side is gone, but what it said before may be here */
	return 0;
}

static int move_up(struct bridge *b)
{
	char data[LIMIT_FRAME_BYTES];
	size_t room = link_stream_room(b->stream);
	ssize_t n;

	if (b->up_over || room == 0)
		return 0;
	n = recv(b->fd, data, MIN(room, sizeof(data)), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n > 0)
		return send_up(b, data, (size_t)n);
	b->up_over = true;
	b->moved = true;
	return link_end(b->stream, NULL);
}

/* The next bytes from the stream, if there are any. */
static int take_down(struct bridge *b)
{
	struct link_event ev;
	int r = link_next(b->stream, &ev, 0, -1, NULL);

	if (r <= 0)
		return r;
	b->moved = true;
	if (ev.type == LINK_DATA) {
		b->ev = ev;
		b->down = (const char *)ev.data;
		b->down_len = ev.len;
		return 0;
	}
	if (ev.type == LINK_END) {
		b->down_over = true;
		(void)shutdown(b->fd, SHUT_WR); /* the client may be gone */
	}
	b->up_over |= ev.type == LINK_CLOSE; /* after its END */
	link_event_done(b->stream, &ev);
	return 0;
}

static int move_down(struct bridge *b)
{
	ssize_t n;

	if (b->down_len == 0 && !b->down_over) {
		int r = take_down(b);

		if (r < 0)
			return r;
	}
	if (b->down_len == 0)
		return 0;
	n = send(b->fd, b->down, b->down_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	b->moved = true;
	b->down += n;
	b->down_len -= (size_t)n;
	if (b->down_len == 0 && b->ev.len)
		link_event_done(b->stream, &b->ev);
	return 0;
}

static int wait_for_more(struct bridge *b)
{
	bool room = link_stream_room(b->stream) > 0;
	struct pollfd p[2] = {
		{.fd = link_stream_fd(b->stream), .events = POLLIN},
		{.fd = b->fd},
	};
	int n;

	if (!b->up_over && room)
		p[1].events |= POLLIN;
	if (b->down_len)
		p[1].events |= POLLOUT;
	n = poll(p, 2, b->up_over ? LINGER_MS : -1);
	if (n < 0 && errno != EINTR)
		return -errno;
	/* Reading or writing would say what has happened to it; without either this is all that is known. */
	if (n == 0 || (!p[1].events && p[1].revents))
		return -ECONNRESET;
	return 0;
}

void bridge_run(struct link_stream *stream, int fd, const void *early, size_t early_len,
	const void *rest, size_t rest_len)
{
	struct bridge b = {.stream = stream, .fd = fd, .down = rest, .down_len = rest_len};
	int r = send_up(&b, early, early_len);

	while (r >= 0 && !(b.up_over && b.down_over)) {
		b.moved = false;
		link_stream_clear(stream);
		r = move_down(&b);
		if (r >= 0)
			r = move_up(&b);
		if (r >= 0 && !b.moved)
			r = wait_for_more(&b);
	}
	if (b.ev.len)
		link_event_done(stream, &b.ev);
}
