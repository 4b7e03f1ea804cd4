/* SPDX-License-Identifier: Apache-2.0 */
/* Which Ethernet frames of a sandbox pass. */
#include "egress/frame.h"

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "proto/guest_net.h"

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_ARP = 0x0806,
	TYPE_IPV6 = 0x86DD,
	ARP_BYTES = 28,
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	IPV4_FRAGMENT = 0xBFFF, /* whatever is not "don't fragment" */
	TCP_HEADER = 20,
	UDP_HEADER = 8,
	ICMP_HEADER = 8,
	TCP_SYN = 0x02,
	TCP_ACK = 0x10,
	TCP_URG = 0x20,
	PORT_DHCP = 67,
	PORT_TFTP = 69,
	PORT_DHCP6 = 547,
};

static const uint8_t guest_mac[6] = GUEST_NET_MAC;

static uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static bool is_v4(const uint8_t *at, const char *addr)
{
	uint8_t bytes[4];

	return inet_pton(AF_INET, addr, bytes) == 1 && memcmp(at, bytes, sizeof(bytes)) == 0;
}

static bool is_v6(const uint8_t *at, const char *addr)
{
	uint8_t bytes[16];

	return inet_pton(AF_INET6, addr, bytes) == 1 && memcmp(at, bytes, sizeof(bytes)) == 0;
}

/* RFC 826; only about the guest's own address. */
static enum frame_verdict check_arp(const uint8_t *p, size_t len)
{
	static const uint8_t head[] = {0, 1, 8, 0, 6, 4, 0}; /* Ethernet, IPv4, their lengths */

	if (len < ARP_BYTES || memcmp(p, head, sizeof(head)) != 0 || (p[7] != 1 && p[7] != 2))
		return FRAME_DROP;
	if (memcmp(p + 8, guest_mac, sizeof(guest_mac)) != 0)
		return FRAME_DROP;
	return is_v4(p + 14, GUEST_NET_V4_ADDR) ? FRAME_PASS : FRAME_DROP;
}

/*
 * TCP or UDP behind an IP header whose destination is known. Urgent data is not for libslirp, which believes the pointer: it would
 * send what lies behind its buffer, and count below zero.
 */
static enum frame_verdict check_transport(int protocol, const uint8_t *p, size_t len,
	bool to_gateway, struct egress_target *t)
{
	bool tcp = protocol == IPPROTO_TCP;

	if (len < (size_t)(tcp ? TCP_HEADER : UDP_HEADER))
		return FRAME_DROP;
	if (tcp ? p[13] & TCP_URG : get_u16(p + 4) != len)
		return FRAME_DROP;
	if (!to_gateway)
		return FRAME_PASS;
	t->protocol = tcp ? EGRESS_TCP : EGRESS_UDP;
	t->port = get_u16(p + 2);
	if (tcp)
		return (p[13] & (TCP_SYN | TCP_ACK)) == TCP_SYN ? FRAME_PASS_TO_GATEWAY
								: FRAME_PASS;
	if (t->port == PORT_DHCP || t->port == PORT_TFTP || t->port == PORT_DHCP6)
		return FRAME_DROP;
	return FRAME_PASS_TO_GATEWAY;
}

static enum frame_verdict check_v4(const uint8_t *p, size_t len, struct egress_target *t)
{
	size_t total;

	if (len < IPV4_HEADER || p[0] != 0x45)
		return FRAME_DROP;
	total = get_u16(p + 2);
	if (total < IPV4_HEADER || total > len || (get_u16(p + 6) & IPV4_FRAGMENT))
		return FRAME_DROP;
	if (!is_v4(p + 12, GUEST_NET_V4_ADDR) || p[16] >> 4 == 0xE ||
		is_v4(p + 16, "255.255.255.255"))
		return FRAME_DROP;
	t->addr = egress_addr_v4(p + 16);
	len = total - IPV4_HEADER;
	switch (p[9]) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		return check_transport(p[9], p + IPV4_HEADER, len,
			is_v4(p + 16, GUEST_NET_V4_GATEWAY), t);
	case IPPROTO_ICMP:
		return len >= ICMP_HEADER && p[IPV4_HEADER] == ICMP_ECHO ? FRAME_PASS : FRAME_DROP;
	default:
		return FRAME_DROP;
	}
}

/*
 * The neighbours' protocol of IPv6, in which the guest finds its gateway, and echo. Not asking for a router, for libslirp reads a file
 * then; and libslirp 4.7 carries no echo to anybody beyond it, which it complains about in the log.
 */
static enum frame_verdict check_icmp6(const uint8_t *ip, const uint8_t *p, size_t len)
{
	if (len < ICMP_HEADER)
		return FRAME_DROP;
	switch (p[0]) {
	case ND_NEIGHBOR_SOLICIT:
	case ND_NEIGHBOR_ADVERT:
		return FRAME_PASS;
	case ICMP6_ECHO_REQUEST:
		return is_v6(ip + 24, GUEST_NET_V6_GATEWAY) ? FRAME_PASS : FRAME_DROP;
	default:
		return FRAME_DROP;
	}
}

/* Within it libslirp refuses whoever is not the gateway as it does the gateway. */
static bool is_own_net(const uint8_t *at)
{
	uint8_t net[16];

	return inet_pton(AF_INET6, GUEST_NET_V6_PREFIX, net) == 1 &&
		memcmp(at, net, GUEST_NET_V6_BITS / 8) == 0;
}

static enum frame_verdict check_v6(const uint8_t *p, size_t len, struct egress_target *t)
{
	bool link_local;

	if (len < IPV6_HEADER || p[0] >> 4 != 6 || get_u16(p + 4) != len - IPV6_HEADER)
		return FRAME_DROP;
	len -= IPV6_HEADER;
	link_local = p[8] == 0xFE && p[9] == 0x80;
	memcpy(t->addr.bytes, p + 24, sizeof(t->addr.bytes));
	if (p[6] == IPPROTO_ICMPV6 && (link_local || is_v6(p + 8, GUEST_NET_V6_ADDR)))
		return check_icmp6(p, p + IPV6_HEADER, len);
	if ((p[6] != IPPROTO_TCP && p[6] != IPPROTO_UDP) || p[24] == 0xFF ||
		!is_v6(p + 8, GUEST_NET_V6_ADDR))
		return FRAME_DROP;
	return check_transport(p[6], p + IPV6_HEADER, len, is_own_net(p + 24), t);
}

enum frame_verdict frame_check(const uint8_t *frame, size_t len, struct egress_target *ret)
{
	const uint8_t *payload = frame + FRAME_HEADER;

	*ret = (struct egress_target){0};
	if (len < FRAME_HEADER || len > FRAME_MAX ||
		memcmp(frame + 6, guest_mac, sizeof(guest_mac)) != 0)
		return FRAME_DROP;
	len -= FRAME_HEADER;
	switch (get_u16(frame + 12)) {
	case TYPE_ARP:
		return check_arp(payload, len);
	case TYPE_IPV4:
		return check_v4(payload, len, ret);
	case TYPE_IPV6:
		return check_v6(payload, len, ret);
	default:
		return FRAME_DROP;
	}
}

/* Changes the code of an ICMP message, and its checksum with it (RFC 1624). */
static void set_code(uint8_t *icmp, uint8_t code)
{
	uint16_t before = get_u16(icmp), sum = get_u16(icmp + 2);
	uint32_t new_sum;

	icmp[1] = code;
	new_sum = (uint16_t)~sum + (uint32_t)(uint16_t)~before + get_u16(icmp);
	new_sum = (new_sum & 0xFFFF) + (new_sum >> 16);
	new_sum = ~((new_sum & 0xFFFF) + (new_sum >> 16));
	icmp[2] = (uint8_t)(new_sum >> 8);
	icmp[3] = (uint8_t)new_sum;
}

void frame_mark_prohibited(uint8_t *frame, size_t len)
{
	uint8_t *ip = frame + FRAME_HEADER;

	if (len >= FRAME_HEADER + IPV4_HEADER + ICMP_HEADER && get_u16(frame + 12) == TYPE_IPV4 &&
		ip[0] == 0x45 && ip[9] == IPPROTO_ICMP && ip[IPV4_HEADER] == ICMP_DEST_UNREACH &&
		ip[IPV4_HEADER + 1] == ICMP_NET_UNREACH)
		set_code(ip + IPV4_HEADER, ICMP_PKT_FILTERED);
	else if (len >= FRAME_HEADER + IPV6_HEADER + ICMP_HEADER &&
		get_u16(frame + 12) == TYPE_IPV6 && ip[6] == IPPROTO_ICMPV6 &&
		ip[IPV6_HEADER] == ICMP6_DST_UNREACH &&
		ip[IPV6_HEADER + 1] == ICMP6_DST_UNREACH_NOROUTE)
		set_code(ip + IPV6_HEADER, ICMP6_DST_UNREACH_ADMIN);
}
