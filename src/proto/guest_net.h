/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox as it looks from inside: the same in each, and fixed by the bake, so that a restored machine finds
 * the one that it knows. Who answers is the egress helper.
 */
#pragma once

#define GUEST_NET_MAC_TEXT "52:54:00:70:61:6e"
#define GUEST_NET_MAC \
	{ \
		0x52, 0x54, 0x00, 0x70, 0x61, 0x6E \
	}

#define GUEST_NET_V4_ADDR "10.0.2.15"
#define GUEST_NET_V4_NET "10.0.2.0"
#define GUEST_NET_V4_MASK "255.255.255.0" /* to the stack; the guest knows of no neighbours */
#define GUEST_NET_V4_GATEWAY "10.0.2.2"
/* The first is the first resolver of the host, and so on; one that the host has not is refused at once. */
#define GUEST_NET_RESOLVERS \
	{ \
		"10.0.2.3", "10.0.2.4", "10.0.2.5" \
	}
enum { GUEST_NET_RESOLVERS_MAX = 3 };

/* The daemon's package cache, on port 80: the first resolver's, for libslirp answers ARP for no other of the guest's network. */
#define GUEST_NET_MIRROR "10.0.2.3"
enum { GUEST_NET_MIRROR_PORT = 80 };

#define GUEST_NET_V6_ADDR "fd70:616e:6461::15"
#define GUEST_NET_V6_PREFIX "fd70:616e:6461::"
#define GUEST_NET_V6_BITS 64
#define GUEST_NET_V6_GATEWAY "fd70:616e:6461::2"

/* The gateway's hardware address, by heart: a first frame is one that goes somewhere, and not a question for where that is. */
#define GUEST_NET_GATEWAY_MAC \
	{ \
		0x52, 0x55, 0x0A, 0x00, 0x02, 0x02 \
	}

/* No wire is as narrow as Ethernet's here, and each packet costs the same: the largest that all on the way take. */
enum { GUEST_NET_MTU = 65520 };
