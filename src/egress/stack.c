/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, libslirp, and the pace of both. */
#include "egress/stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <slirp/libslirp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "egress/frame.h"
#include "proto/guest_net.h"

enum {
	FRAMES_A_ROUND = 64,
	OUT_MAX = 8 << 20,     /* then frames are dropped, and TCP sends them again */
	BURST_MS = 100,        /* of its rate that may pass at once */
	BURST_MIN = 128 << 10, /* one frame goes in any case */
	PROOF_PORT = 9,
	/*
	 * Of TCP. libslirp says that a window is open again when it has opened by two segments, and a guest that is not told waits
	 * for 200 ms: so three of them go into the largest window, of 64 KiB.
	 */
	SEGMENT_MRU = 21840 + 40,
};

static_assert(SLIRP_CONFIG_VERSION_MAX >= 4, "libslirp 4.7 is needed");

struct stack {
	int fd;              /* owned */
	Slirp *slirp;        /* owned */
	struct pollset *set; /* borrowed, while libslirp fills or reads it */
	int fd_index;        /* of `fd` in the set */
	bool polled;         /* libslirp filled the set */
	bool broken;
	uint8_t in[FRAME_MAX];
	struct buf
		out; /* frames that the engine has not taken yet, each behind its length (size_t) */
	uint64_t rate;
	int64_t tokens; /* bytes that may pass now; below 0: it looks away */
	int64_t refilled_us;
	struct stack_stats stats;
};

int pollset_add(struct pollset *set, int fd, short events)
{
	if (set->n == ARRAY_SIZE(set->fds))
		return -1;
	set->fds[set->n] = (struct pollfd){.fd = fd, .events = events};
	return (int)set->n++;
}

/* ---- to the guest ---- */

/* False: the engine does not take it now. What it never will is gone. */
static bool push_frame(struct stack *s, const void *frame, size_t len)
{
	if (send(s->fd, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return false;
	/* ENOBUFS: the queue of a card whose guest takes nothing is full, and poll(2) does not say when it is not. */
	s->broken = errno != EMSGSIZE && errno != EINTR && errno != ENOBUFS;
	return true;
}

static void push_or_keep(struct stack *s, const void *frame, size_t len)
{
	if (s->out.len == 0 && push_frame(s, frame, len))
		return;
	if (s->out.len + sizeof(len) + len > s->out.max)
		return;
	(void)buf_append(&s->out, &len, sizeof(len));
	(void)buf_append(&s->out, frame, len);
}

static void flush_out(struct stack *s)
{
	size_t at = 0, len;

	while (at < s->out.len) {
		memcpy(&len, s->out.data + at, sizeof(len));
		if (!push_frame(s, s->out.data + at + sizeof(len), len))
			break;
		at += sizeof(len) + len;
	}
	buf_consume(&s->out, at);
}

static ssize_t on_send(const void *frame, size_t len, void *opaque)
{
	struct stack *s = opaque;
	uint8_t copy[1024];

	if (s->fd < 0)
		return (ssize_t)len; /* of stack_prove() */
	if (len <= sizeof(copy) && host_calls_was_denied()) {
		memcpy(copy, frame, len);
		frame_mark_prohibited(copy, len);
		frame = copy;
	}
	push_or_keep(s, frame, len);
	s->stats.bytes_in += len;
	s->tokens -= (int64_t)len;
	return (ssize_t)len;
}

/* ---- libslirp's callbacks ---- */

static void on_guest_error(const char *msg, void *opaque)
{
	(void)msg; /* the guest's matter */
	(void)opaque;
}

static int64_t on_clock(void *opaque)
{
	(void)opaque;
	return clock_mono_us() * 1000;
}

/* Router advertisements are for guests that ask for addresses; ours has its own. */
static void *on_timer_new(SlirpTimerId id, void *cb_opaque, void *opaque)
{
	static char no_timer;

	return &no_timer;
}

static void on_timer_free(void *timer, void *opaque)
{
}

static void on_timer_mod(void *timer, int64_t expire_time, void *opaque)
{
}

static void on_opened(int fd, void *opaque)
{
	host_calls_opened(fd);
}

static void on_closed(int fd, void *opaque)
{
	host_calls_closed(fd);
}

static void on_notify(void *opaque)
{
}

static const SlirpCb callbacks = {
	.send_packet = on_send,
	.guest_error = on_guest_error,
	.clock_get_ns = on_clock,
	.timer_new_opaque = on_timer_new,
	.timer_free = on_timer_free,
	.timer_mod = on_timer_mod,
	.register_poll_fd = on_opened,
	.unregister_poll_fd = on_closed,
	.notify = on_notify,
};

static Slirp *new_slirp(struct stack *s)
{
	static const char *const resolvers[] = GUEST_NET_RESOLVERS;
	SlirpConfig config = {
		.version = 4,
		.in_enabled = true,
		.in6_enabled = true,
		.vprefix_len = GUEST_NET_V6_BITS,
		.if_mtu = GUEST_NET_MTU,
		.if_mru = SEGMENT_MRU,
		.disable_host_loopback = true,
		/* The resolvers are put behind their addresses by host_calls.c, which sees the questions. */
		.disable_dns = true,
		.disable_dhcp = true,
	};

	/* The texts are right. */
	(void)inet_pton(AF_INET, GUEST_NET_V4_NET, &config.vnetwork);
	(void)inet_pton(AF_INET, GUEST_NET_V4_MASK, &config.vnetmask);
	(void)inet_pton(AF_INET, GUEST_NET_V4_GATEWAY, &config.vhost);
	(void)inet_pton(AF_INET, GUEST_NET_V4_ADDR, &config.vdhcp_start);
	(void)inet_pton(AF_INET, resolvers[0], &config.vnameserver);
	(void)inet_pton(AF_INET6, GUEST_NET_V6_PREFIX, &config.vprefix_addr6);
	(void)inet_pton(AF_INET6, GUEST_NET_V6_GATEWAY, &config.vhost6);
	(void)inet_pton(AF_INET6, GUEST_NET_V6_GATEWAY, &config.vnameserver6);
	return slirp_new(&config, &callbacks, s);
}

int stack_new(int fd, struct stack **ret, struct err *err)
{
	struct stack *s = xnew(struct stack);

	s->fd = fd;
	s->out = buf_init(OUT_MAX);
	s->slirp = new_slirp(s);
	if (!s->slirp) {
		stack_free(s);
		return err_set(err, ERR_INTERNAL, -ENOSYS,
			"libslirp is too old: version 4.7 is needed");
	}
	*ret = s;
	return 0;
}

struct stack *stack_free(struct stack *s)
{
	if (!s)
		return NULL;
	if (s->slirp)
		slirp_cleanup(s->slirp);
	cleanup_close(&s->fd);
	buf_done(&s->out);
	free(s);
	return NULL;
}

/* ---- pace ---- */

void stack_set_rate(struct stack *s, uint64_t rate)
{
	s->rate = rate;
	s->tokens = 0;
	s->refilled_us = clock_mono_us();
}

/* How long to look away, in ms; 0: not at all. */
static int pace_ms(struct stack *s)
{
	int64_t now_us = clock_mono_us(), burst, rate = (int64_t)s->rate;

	if (rate == 0) {
		s->tokens = 0;
		return 0;
	}
	burst = MAX(rate / 1000 * BURST_MS, (int64_t)BURST_MIN);
	/* A long silence fills it; the product stays small. */
	s->tokens += MIN(now_us - s->refilled_us, (int64_t)1000 * 1000) * rate / 1000000;
	s->tokens = MIN(s->tokens, burst);
	s->refilled_us = now_us;
	if (s->tokens >= 0)
		return 0;
	return (int)MIN(-s->tokens * 1000 / rate + 1, (int64_t)60000);
}

/* ---- a round ---- */

static short to_poll(int events)
{
	return (short)((events & SLIRP_POLL_IN ? POLLIN : 0) |
		(events & SLIRP_POLL_OUT ? POLLOUT : 0) | (events & SLIRP_POLL_PRI ? POLLPRI : 0));
}

static int on_add_poll(int fd, int events, void *opaque)
{
	struct stack *s = opaque;

	return pollset_add(s->set, fd, to_poll(events));
}

static int on_get_revents(int index, void *opaque)
{
	const struct stack *s = opaque;
	const struct pollfd *p;
	int events;

	if (index < 0 || (nfds_t)index >= s->set->n)
		return 0;
	p = &s->set->fds[index];
	/*
	 * It did not want to read, for it has no room. Told of an end it would read all the same, and abort over that: it hears of it
	 * when it writes.
	 */
	if (!(p->events & POLLIN) && host_calls_begun(p->fd))
		return p->revents ? SLIRP_POLL_OUT : 0;
	events = (p->revents & POLLOUT ? SLIRP_POLL_OUT : 0) |
		(p->revents & POLLPRI ? SLIRP_POLL_PRI : 0) |
		(p->revents & POLLERR ? SLIRP_POLL_ERR | SLIRP_POLL_IN : 0) |
		(p->revents & POLLHUP ? SLIRP_POLL_HUP | SLIRP_POLL_IN : 0);
	if ((p->revents & POLLIN) && ((p->revents & POLLERR) || host_calls_readable(p->fd)))
		events |= SLIRP_POLL_IN;
	return events;
}

void stack_fill(struct stack *s, struct pollset *set)
{
	uint32_t timeout = UINT32_MAX;
	int wait_ms = pace_ms(s);

	s->set = set;
	s->fd_index = pollset_add(set, s->fd, (short)(POLLIN | (s->out.len > 0 ? POLLOUT : 0)));
	host_calls_hold(wait_ms > 0);
	s->polled = s->out.len == 0 && wait_ms == 0;
	if (wait_ms > 0)
		set->timeout_ms = wait_ms;
	if (!s->polled)
		return;
	slirp_pollfds_fill(s->slirp, &timeout, on_add_poll, s);
	/* It wants to look once a second, for what it has no reason to without a socket. */
	if (host_calls_open() > 0 && timeout != UINT32_MAX)
		set->timeout_ms = (int)MIN(timeout, (uint32_t)INT32_MAX);
}

static void take_frame(struct stack *s, const uint8_t *frame, size_t len)
{
	struct egress_target t;
	enum frame_verdict v = frame_check(frame, len, &t);

	if (v == FRAME_DROP) {
		s->stats.dropped++;
		return;
	}
	s->stats.bytes_out += len;
	s->tokens -= (int64_t)len;
	if (v == FRAME_PASS_TO_GATEWAY)
		host_calls_note_denied(&t,
			"it is in the sandbox's own network, which has no services");
	slirp_input(s->slirp, frame, (int)len);
	(void)host_calls_was_denied(); /* its answer has been sent */
}

static int read_frames(struct stack *s)
{
	for (int i = 0; i < FRAMES_A_ROUND; i++) {
		ssize_t n = recv(s->fd, s->in, sizeof(s->in), MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
		if ((size_t)n <= sizeof(s->in))
			take_frame(s, s->in, (size_t)n);
		else
			s->stats.dropped++;
	}
	return 0;
}

int stack_work(struct stack *s, const struct pollset *set)
{
	short revents = s->fd_index < 0 ? 0 : set->fds[s->fd_index].revents;
	int r = 0;

	if (revents & POLLOUT)
		flush_out(s);
	if (revents & (POLLIN | POLLERR | POLLHUP))
		r = read_frames(s);
	if (r == 0 && s->polled)
		slirp_pollfds_poll(s->slirp, 0, on_get_revents, s);
	return s->broken ? -EPIPE : r;
}

const struct stack_stats *stack_stats(const struct stack *s)
{
	return &s->stats;
}

/* ---- the proof ---- */

/* RFC 1071. */
static uint16_t checksum(const uint8_t *data, size_t len, uint32_t sum)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put_u16(uint8_t *p, unsigned int v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* A SYN, or a datagram of 12 bytes, to 127.0.0.1. */
static void make_probe(uint8_t frame[FRAME_HEADER + 40], int protocol)
{
	static const uint8_t head[FRAME_HEADER] = {0x52, 0x55, 0x0A, 0x00, 0x02, 0x02, 0x52, 0x54,
		0x00, 0x70, 0x61, 0x6E, 0x08, 0x00};
	static const uint8_t to[] = {127, 0, 0, 1};
	uint8_t *ip = frame + FRAME_HEADER, *body = ip + 20;
	uint32_t pseudo;

	memset(frame, 0, FRAME_HEADER + 40);
	memcpy(frame, head, sizeof(head));
	ip[0] = 0x45;
	put_u16(ip + 2, 40);
	ip[8] = 64;
	ip[9] = (uint8_t)protocol;
	(void)inet_pton(AF_INET, GUEST_NET_V4_ADDR, ip + 12);
	memcpy(ip + 16, to, sizeof(to));
	put_u16(ip + 10, checksum(ip, 20, 0));
	put_u16(body, 1024);
	put_u16(body + 2, PROOF_PORT);
	if (protocol == IPPROTO_TCP) {
		body[12] = 5 << 4;
		body[13] = 0x02; /* SYN */
		put_u16(body + 14, 1024);
	} else {
		put_u16(body + 4, 20);
	}
	pseudo = (uint32_t)protocol + 20;
	for (int i = 12; i < 20; i += 2)
		pseudo += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	put_u16(body + (protocol == IPPROTO_TCP ? 16 : 6), checksum(body, 20, pseudo));
}

int stack_prove(struct err *err)
{
	static const int protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	uint8_t frame[FRAME_HEADER + 40];
	struct stack *s;
	int r = stack_new(-1, &s, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(protocols); i++) {
		make_probe(frame, protocols[i]);
		(void)host_calls_was_denied();
		slirp_input(s->slirp, frame, sizeof(frame));
		if (!host_calls_was_denied())
			r = err_set(err, ERR_INTERNAL, -EPERM,
				"libslirp reaches the host past the policy: version %s does not fit",
				slirp_version_string());
	}
	if (r != -ENOSYS)
		stack_free(s);
	return r;
}
