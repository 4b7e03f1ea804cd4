/* SPDX-License-Identifier: Apache-2.0 */
/* A client at the other end of a WebSocket. */
/*
 * Theory of operation
 * -------------------
 * A client that is silent for PING_MS is pinged, and is gone when nothing comes for as long again. What it says while
 * nothing may be read of it can't be heard, and a ping behind what it does not take can't be answered: then no answer is
 * due. It is pinged as often all the same, for it may take a server that says nothing for gone. A client that is there and takes nothing is gone after STALL_MS.
 *
 * A client that closes its socket without a word, and a server that stops, look the same: the socket reads as ended. Either
 * is told that we go, in case it listens.
 */
#include "http/ws_peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"

enum {
	PING_MS = 20 * 1000,
	STALL_MS = 3600 * 1000,
	CLOSE_MS = 3 * 1000, /* for the client's close, behind ours */
	/* With so much unsent nothing is read: answers to pings and to bad messages could pile up. */
	UNSENT_MAX = 256 << 10,
	MAX_FDS = LIMIT_WEBSOCKET_COMMANDS + 1,
};

void ws_peer_init(struct ws_peer *p, const struct http_req *req, const struct websocket_ops *ops,
	void *user)
{
	*p = (struct ws_peer){
		.ws = websocket_new(WEBSOCKET_SERVER, LIMIT_WEBSOCKET_TEXT_BYTES, ops, user),
		.count = &req->stats->websockets,
		.fd = -1,
	};
	atomic_fetch_add(p->count, 1);
}

void ws_peer_done(struct ws_peer *p)
{
	if (p->ws)
		atomic_fetch_sub(p->count, 1);
	p->ws = websocket_free(p->ws);
}

void ws_peer_begin(struct ws_peer *p, int fd, const void *early, size_t len)
{
	int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* a matter of speed */
	p->fd = fd;
	p->early = early;
	p->early_len = len;
	p->heard_ms = p->pinged_ms = clock_mono_ms();
}

static void heard(struct ws_peer *p)
{
	p->heard_ms = clock_mono_ms();
	p->pinged = false;
}

/* 1, 0, or a negative errno. */
static int send_out(struct ws_peer *p)
{
	struct buf *out = websocket_out(p->ws);
	ssize_t n;

	if (out->len == 0)
		return 0;
	n = send(p->fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0) {
		p->blocked = errno == EAGAIN;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (p->blocked)
		heard(p); /* it has taken something */
	p->blocked = false;
	buf_consume(out, (size_t)n);
	return 1;
}

/* The same. */
static int take_in(struct ws_peer *p, size_t max)
{
	char data[WS_PEER_TURN_BYTES];
	ssize_t n;

	if (p->early_len) {
		n = (ssize_t)MIN(p->early_len, max);
		websocket_feed(p->ws, p->early, (size_t)n);
		p->early += n;
		p->early_len -= (size_t)n;
		return 1;
	}
	n = recv(p->fd, data, MIN(max, sizeof(data)), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		websocket_close(p->ws, WEBSOCKET_GOING_AWAY, "the daemon stops");
		(void)send_out(p); /* in case that somebody listens */
		return -ECONNRESET;
	}
	heard(p);
	websocket_feed(p->ws, data, (size_t)n);
	return 1;
}

static bool may_read(const struct ws_peer *p)
{
	return !websocket_over(p->ws) && websocket_out(p->ws)->len <= UNSENT_MAX;
}

int ws_peer_turn(struct ws_peer *p, size_t max_in)
{
	int sent = send_out(p), taken = 0;

	if (sent < 0)
		return sent;
	if (websocket_over(p->ws))
		return ws_peer_idle(p) ? -ECONNRESET : sent;
	if (max_in && may_read(p))
		taken = take_in(p, max_in);
	return taken < 0 ? taken : sent | taken;
}

bool ws_peer_idle(const struct ws_peer *p)
{
	return websocket_out(p->ws)->len == 0;
}

/* When something is to be done about its silence, or ours. */
static int64_t silence_due(struct ws_peer *p, bool reads)
{
	if (!ws_peer_idle(p))
		return p->heard_ms + STALL_MS;
	if (reads)
		return p->heard_ms + (1 + p->pinged) * PING_MS;
	heard(p); /* as far as we know */
	return p->pinged_ms + PING_MS;
}

static int end_silence(struct ws_peer *p, bool reads)
{
	if (p->pinged || !ws_peer_idle(p))
		return -ETIMEDOUT;
	p->pinged = reads;
	p->pinged_ms = clock_mono_ms();
	websocket_ping(p->ws);
	return 0;
}

int ws_peer_wait(struct ws_peer *p, bool reads, struct pollfd *fds, nfds_t n_fds,
	int64_t deadline_ms)
{
	struct pollfd all[MAX_FDS] = {{.fd = p->fd, .events = POLLRDHUP}};
	int64_t due, until;
	int n, left;

	reads = reads && may_read(p);
	due = silence_due(p, reads);
	until = deadline_ms >= 0 ? MIN(due, deadline_ms) : due;
	left = (int)MAX(MIN(until - clock_mono_ms(), INT32_MAX), 0);
	all[0].events |= (short)((reads ? POLLIN : 0) | (ws_peer_idle(p) ? 0 : POLLOUT));
	assert(n_fds < MAX_FDS);
	for (nfds_t i = 0; i < n_fds; i++)
		all[1 + i] = fds[i];
	n = poll(all, 1 + n_fds, left);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	/* Nothing would be read that it says behind this, so it is no use to go on. */
	if (!reads && (all[0].revents & (POLLRDHUP | POLLHUP | POLLERR)))
		return -ECONNRESET;
	return n == 0 && clock_mono_ms() >= due ? end_silence(p, reads) : 0;
}

/* Waits until the client has taken all that waits, and reads nothing meanwhile. */
static int drain_out(struct ws_peer *p)
{
	int r = 0;

	while (r >= 0 && !ws_peer_idle(p)) {
		r = ws_peer_turn(p, 0);
		if (r == 0)
			r = ws_peer_wait(p, false, NULL, 0, -1);
	}
	return r;
}

void ws_peer_finish(struct ws_peer *p, enum websocket_code code, const char *reason)
{
	int r = drain_out(p);
	int64_t deadline = clock_mono_ms() + CLOSE_MS;

	websocket_close(p->ws, code, reason);
	while (r >= 0 && clock_mono_ms() < deadline) {
		r = ws_peer_turn(p, WS_PEER_TURN_BYTES);
		if (r == 0)
			r = ws_peer_wait(p, true, NULL, 0, deadline);
	}
}
