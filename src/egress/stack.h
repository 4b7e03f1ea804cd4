/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network that a guest sees: frames of its network card on one side, libslirp and its sockets on the other.
 *
 * Each datagram of the card's socket is a frame. They are always read, for an engine whose guest is not heard waits busily; what the
 * engine does not take yet is kept, up to a bound, and until it has been taken nothing is read from the host's sockets. The rate
 * is kept there too: by not reading from them, and by host_calls.c, which then takes nothing from the guest's streams, so that their
 * windows close.
 */
#pragma once

#include <poll.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/host_calls.h"

/* What poll(2) shall look at. */
struct pollset {
	struct pollfd fds[HOST_CALLS_FDS_MAX + 8];
	nfds_t n;
	int timeout_ms; /* -1: none */
};

/* Returns its index, or -1 where there is no more room. */
int pollset_add(struct pollset *set, int fd, short events);

struct stack_stats {
	uint64_t bytes_out, bytes_in; /* of frames that passed, as the guest sees it */
	uint64_t dropped;             /* frames of the guest that no honest one sends */
};

struct stack;

/* `fd` is taken: a socket of datagrams, connected or bound to the card, non-blocking. host_calls_start() has been called. */
int stack_new(int fd, struct stack **ret, struct err *err);
struct stack *stack_free(struct stack *s);

/* Shows that what the guest sends comes by the policy, with packets to this machine's loopback through a stack of its own. */
int stack_prove(struct err *err);

/* Bytes a second, 0: as fast as it goes. */
void stack_set_rate(struct stack *s, uint64_t rate);

void stack_fill(struct stack *s, struct pollset *set);
/* After poll(2). -EPIPE when the engine has gone. */
int stack_work(struct stack *s, const struct pollset *set);

const struct stack_stats *stack_stats(const struct stack *s);
