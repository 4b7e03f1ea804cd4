/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon tells an egress helper: one text of lines, a word and its value each.
 *
 *	internet yes|no         all that is public, or what is allowed
 *	allow RULE              of the sandbox, any number; so are the next three
 *	deny RULE
 *	host-allow RULE         of the daemon
 *	host-deny RULE
 *	resolver ADDRESS        of the host, in order
 *	mirror PORT             of 127.0.0.1: the package cache, behind GUEST_NET_MIRROR; while this daemon is connected
 *	rate BYTES              a second, both ways together; 0: as fast as it goes
 */
#pragma once

#include "proto/egress_policy.h"
#include "proto/guest_net.h"

enum { EGRESS_CONFIG_MAX = 4 * EGRESS_RULES_MAX * (EGRESS_RULE_SIZE + 12) + 4096 };

#define EGRESS_RATE_MAX \
	(INT64_C(1) << 40) /* times a second's microseconds it is still an int64_t */

struct egress_config {
	struct egress_policy policy;
	struct egress_addr resolvers[GUEST_NET_RESOLVERS_MAX];
	size_t n_resolvers;
	uint64_t mirror_port; /* 0: none */
	uint64_t rate;
};

/* Fills *ret, which is empty before; to be freed by egress_config_done(), also after a failure. ERR_INVALID says which line. */
int egress_config_parse(const char *text, struct egress_config *ret, struct err *err);
void egress_config_done(struct egress_config *c);
