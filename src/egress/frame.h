/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet frames from a sandbox, before the network stack sees them. No I/O.
 *
 * The guest's kernel is an attacker's: a frame passes only if it is one that an honest Linux with the addresses of
 * proto/guest_net.h would send to somebody beyond the gateway. So the stack, which is large, is given a small
 * language: no fragments, no IP options, no extension headers, no foreign source, no DHCP, no urgent data, nothing to many.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/egress_policy.h"

enum {
	FRAME_HEADER = 14,
	FRAME_MAX = FRAME_HEADER + 65535,
};

enum frame_verdict {
	FRAME_DROP,
	FRAME_PASS,
	/* It begins something within the guest's own network, which the stack refuses; tell what it is. */
	FRAME_PASS_TO_GATEWAY,
};

/* With FRAME_PASS_TO_GATEWAY protocol, addr and port of *ret are filled. */
enum frame_verdict frame_check(const uint8_t *frame, size_t len, struct egress_target *ret);

/* An ICMP error of the stack that says "no route" for what the policy refused: makes it say "administratively prohibited",
 * which programs take for final (RFC 1812, 5.2.7.1; RFC 4443, 3.1). Others are left alone. */
void frame_mark_prohibited(uint8_t *frame, size_t len);
