/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of a helper: a socket of packets (SOCK_SEQPACKET), one daemon at a time.
 *
 *	daemon → helper    "config\n" and the lines of proto/egress_config.h, or "stats", or "end"
 *	helper → daemon    JSON, one object a packet:
 *		{"ok":true} | {"error":"…"}                            to a config
 *		{"stats":{"bytes_out":N,"bytes_in":N,"connections":N,"denied":N,"dropped":N}}
 *		{"denied":{"protocol":"tcp","address":"…","port":N,"name":"…","why":"…"},"more":N}   at any time; `more`
 *			were not told one by one, for there were too many
 *
 * The helper trusts the daemon. A daemon that reads too slowly loses events, not the helper.
 */
#pragma once

#include "egress/stack.h"

struct control;

/* `listen_fd` and `fd` (a first connection, or -1) are taken. */
struct control *control_new(int listen_fd, int fd);
struct control *control_free(struct control *c);

/* Waits for the first config; -EPIPE when the daemon has gone before. */
int control_wait_config(struct control *c, struct err *err);
uint64_t control_rate(const struct control *c);

void control_fill(struct control *c, struct pollset *set);
/* After poll(2). -EPIPE when the daemon wants no helper any more. */
int control_work(struct control *c, const struct pollset *set, struct stack *stack);

/* A host_calls_denied_fn; `user` is the struct control. */
void control_denied(const struct egress_target *target, const char *name, const char *why,
	void *user);

/* Why the helper ends. */
void control_failed(struct control *c, const char *why);
