/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between a channel and two descriptors. */
/*
 * As in the daemon (http/ws_bridge.c): each turn moves what can be moved without waiting, and a turn that moved nothing waits for
 * what it lacked. The descriptors may be a terminal that others use, too, so they are not made non-blocking but asked first.
 */
#include "cli/pump.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
	PIECE_BYTES = 32 << 10,
	/* The daemon pings after 20 s of silence. */
	SILENCE_MS = 60 * 1000,
	DOWN_BYTES_MAX = 1 << 20,
};

/* As much as a terminal takes without a wait. */
#define WRITE_BYTES KIB(4)

static void on_text(void *user, const char *text, size_t len)
{
	struct pump *p = user;

	if (p->r == 0)
		p->r = p->ops->on_text(p, text, len, &p->err);
}

static void on_bytes(void *user, const void *data, size_t len)
{
	struct pump *p = user;

	if (buf_append(&p->down, data, len) < 0)
		abort(); /* out of memory: nothing is read while something waits */
}

const struct websocket_ops pump_ops = {.on_text = on_text, .on_bytes = on_bytes};

struct pump pump_init(const struct pump_ops *ops, int in_fd, int out_fd, int event_fd)
{
	return (struct pump){
		.ops = ops,
		.in_fd = in_fd,
		.out_fd = out_fd,
		.event_fd = event_fd,
		.down = buf_init(DOWN_BYTES_MAX),
	};
}

void pump_done(struct pump *p)
{
	buf_done(&p->down);
}

static bool ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, 0) > 0;
}

/* 1 where something moved, 0, or a negative errno. */
static int write_out(struct pump *p)
{
	ssize_t n;

	if (p->down.len == 0 && p->shuts_down) {
		(void)shutdown(p->out_fd, SHUT_WR); /* who is gone needs no end */
		p->shuts_down = false;
		return 1;
	}
	if (p->down.len == 0 || !ready(p->out_fd, POLLOUT))
		return 0;
	n = write(p->out_fd, p->down.data, MIN(p->down.len, WRITE_BYTES));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	buf_consume(&p->down, (size_t)n);
	return 1;
}

static int read_in(struct pump *p)
{
	char data[PIECE_BYTES];
	ssize_t n;

	if (p->in_over || !channel_idle(p->channel) || !ready(p->in_fd, POLLIN))
		return 0;
	n = read(p->in_fd, data, sizeof(data));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return -EPIPE;
	if (n > 0) {
		websocket_send_bytes(channel_websocket(p->channel), data, (size_t)n);
		return 1;
	}
	p->in_over = true;
	p->ops->on_in_end(p);
	return 1;
}

static int wait_for_more(struct pump *p, struct err *err)
{
	bool idle = channel_idle(p->channel), reads = p->down.len == 0;
	struct pollfd fds[] = {
		{.fd = channel_fd(p->channel),
			.events = (short)((reads ? POLLIN : 0) | (idle ? 0 : POLLOUT))},
		{.fd = !p->in_over && idle ? p->in_fd : -1, .events = POLLIN},
		{.fd = reads ? -1 : p->out_fd, .events = POLLOUT},
		{.fd = p->event_fd, .events = POLLIN},
	};
	int n = poll(fds, ARRAY_SIZE(fds), reads && idle ? SILENCE_MS : -1);

	if (n == 0)
		return err_set(err, ERR_INTERNAL, -ECONNRESET,
			"the daemon is silent: the connection is lost");
	/* With nothing to be read or written the end of a connection is all that it can tell. */
	if (n > 0 && !fds[0].events && fds[0].revents)
		return err_set(err, ERR_INTERNAL, -ECONNRESET, "the connection is lost");
	if (n > 0 && fds[3].revents)
		return p->ops->on_event(p, err);
	return 0;
}

/* What came before the end is still written. */
static int finish(struct pump *p)
{
	int r = 0;

	while (r >= 0 && (p->down.len || p->shuts_down)) {
		struct pollfd out = {.fd = p->out_fd, .events = POLLOUT};

		r = write_out(p);
		if (r == 0)
			(void)poll(&out, 1, -1);
	}
	return MIN(r, 0);
}

int pump_run(struct pump *p, struct err *err)
{
	int r = 0;

	while (r >= 0) {
		int moved = write_out(p), in = moved < 0 ? moved : read_in(p);

		if (in < 0)
			return in;
		moved |= in;
		r = channel_turn(p->channel, p->down.len == 0, err);
		if (p->r < 0) {
			*err = p->err;
			return p->r;
		}
		if (r == 0 && !moved)
			r = wait_for_more(p, err);
	}
	return r == -ESHUTDOWN ? finish(p) : r;
}
