/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which the network stack reaches the host, with the policy in them.
 *
 * Theory of operation
 * -------------------
 * libslirp turns the guest's frames into sockets of the host. Whatever its parsers make of a frame, in the end it calls connect(),
 * sendto() and send(): there the policy stands. This file defines these three, socket(), recvfrom() and recv(), with the names of the C library,
 * so that the dynamic linker gives libslirp ours (the program comes before its libraries in the search for a symbol; meson.build exports
 * them); they end in system calls. stack_prove() shows at each start that libslirp really comes by here, and the program
 * does not serve otherwise. A reading of frames, in contrast, would have to agree with libslirp's about every header.
 *
 * A *flow* is what is known of one descriptor. TCP is judged at connect(); what is refused there is answered to the guest by a reset.
 * Where names count, send() looks at what goes out first (peek.h). UDP is judged by datagram, with the last verdict kept; and
 * datagrams from elsewhere than where the policy lets the guest send are dropped (host_calls_readable(), recvfrom()), for a socket of UDP
 * takes what anybody sends to its port. One that asks a resolver hears resolvers only.
 *
 * The resolvers of the host have addresses in the guest's own network (guest_net.h), behind which sendto() and connect() put the real
 * ones. Questions are judged by name. Likewise the daemon's package cache.
 *
 * The state is a single one, since the C library's calls have no room for a pointer to it. Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/dns.h"
#include "proto/egress_config.h"

struct Slirp;

enum { HOST_CALLS_FDS_MAX = 2048 }; /* descriptors; 1,000 connections and what is closing */

struct host_calls_stats {
	uint64_t connections; /* TCP, begun */
	uint64_t denied;
};

/* Before the first call of libslirp. */
int host_calls_start(void);

/* Called for each thing that is refused. `name` of a question or a stream, else NULL. */
typedef void host_calls_denied_fn(const struct egress_target *target, const char *name,
	const char *why, void *user);
void host_calls_on_denied(host_calls_denied_fn *fn, void *user);

/* From now on; borrowed until the next. Connections that stand and that it does not allow by address are reset. */
void host_calls_set_config(const struct egress_config *config);

/* The config has no package cache any more: connections to it are reset. */
void host_calls_end_mirror(void);

/* libslirp's register_poll_fd and unregister_poll_fd: a descriptor begins and ends to be its. */
void host_calls_opened(int fd);
void host_calls_closed(int fd);

/* Whether what can be read from the descriptor is for the guest; what is not is gone. */
bool host_calls_readable(int fd);

/* Whether it is a stream that is connected, as libslirp knows. */
bool host_calls_begun(int fd);

/* How many descriptors are open. */
unsigned int host_calls_open(void);

/* Streams take nothing more from the guest for now, and datagrams are lost: the rate is used up. */
void host_calls_hold(bool hold);

/* The gateway's own refusals, which libslirp makes. */
void host_calls_note_denied(const struct egress_target *target, const char *why);
/* Whether something was refused since the last call of this. */
bool host_calls_was_denied(void);

const struct host_calls_stats *host_calls_stats(void);
