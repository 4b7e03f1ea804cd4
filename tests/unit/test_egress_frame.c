/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a sandbox: those of an honest Linux pass, and each of them with one thing wrong does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cmocka.h>

#include "base/macros.h"
#include "egress/frame.h"

enum { ROOM = 1600, IP = FRAME_HEADER, L4_V4 = IP + 20, L4_V6 = IP + 40, BODY = 24 };

struct frame {
	uint8_t bytes[ROOM];
	size_t len;
};

static void put_u16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_addr(uint8_t *p, const char *text)
{
	assert_int_equal(inet_pton(strchr(text, ':') ? AF_INET6 : AF_INET, text, p), 1);
}

static struct frame ethernet(uint16_t type, size_t len)
{
	static const uint8_t macs[] = {0x52, 0x55, 0x0A, 0x00, 0x02, 0x02, 0x52, 0x54, 0x00, 0x70,
		0x61, 0x6E};
	struct frame f = {.len = FRAME_HEADER + len};

	memcpy(f.bytes, macs, sizeof(macs));
	put_u16(f.bytes + 12, type);
	return f;
}

static void put_transport(uint8_t *p, int protocol, uint16_t port)
{
	put_u16(p, 40000);
	put_u16(p + 2, port);
	if (protocol == IPPROTO_TCP) {
		p[12] = 5 << 4;
		p[13] = 0x02; /* SYN */
	} else if (protocol == IPPROTO_UDP) {
		put_u16(p + 4, BODY);
	} else {
		p[0] = protocol == IPPROTO_ICMP ? 8 : 128; /* echo */
		p[1] = p[2] = p[3] = 0;
	}
}

static struct frame v4(int protocol, const char *to, uint16_t port)
{
	struct frame f = ethernet(0x0800, 20 + BODY);
	uint8_t *ip = f.bytes + IP;

	ip[0] = 0x45;
	put_u16(ip + 2, 20 + BODY);
	put_u16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = 64;
	ip[9] = (uint8_t)protocol;
	put_addr(ip + 12, "10.0.2.15");
	put_addr(ip + 16, to);
	put_transport(f.bytes + L4_V4, protocol, port);
	return f;
}

static struct frame v6(int protocol, const char *to, uint16_t port)
{
	struct frame f = ethernet(0x86DD, 40 + BODY);
	uint8_t *ip = f.bytes + IP;

	ip[0] = 0x60;
	put_u16(ip + 4, BODY);
	ip[6] = (uint8_t)protocol;
	ip[7] = 255;
	put_addr(ip + 8, "fd70:616e:6461::15");
	put_addr(ip + 24, to);
	put_transport(f.bytes + L4_V6, protocol, port);
	return f;
}

static struct frame arp(uint8_t op)
{
	static const uint8_t head[] = {0, 1, 8, 0, 6, 4, 0};
	struct frame f = ethernet(0x0806, 28);
	uint8_t *p = f.bytes + IP;

	memcpy(p, head, sizeof(head));
	p[7] = op;
	memcpy(p + 8, f.bytes + 6, 6);
	put_addr(p + 14, "10.0.2.15");
	put_addr(p + 24, "10.0.2.2");
	return f;
}

static struct frame nd(uint8_t type, const char *from)
{
	struct frame f = v6(IPPROTO_ICMPV6, "ff02::1:ff00:2", 0);

	put_addr(f.bytes + IP + 8, from);
	f.bytes[L4_V6] = type;
	return f;
}

static enum frame_verdict check_into(const struct frame *f, struct egress_target *t)
{
	/* So that reading behind the frame is seen. */
	uint8_t *exact = malloc(f->len ? f->len : 1);
	enum frame_verdict v;

	assert_non_null(exact);
	memcpy(exact, f->bytes, f->len);
	v = frame_check(exact, f->len, t);
	free(exact);
	return v;
}

static enum frame_verdict check(struct frame f)
{
	struct egress_target t;

	return check_into(&f, &t);
}

static void test_honest(void **state)
{
	assert_int_equal(check(v4(IPPROTO_TCP, "93.184.216.34", 443)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_UDP, "93.184.216.34", 443)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_ICMP, "93.184.216.34", 0)), FRAME_PASS);
	assert_int_equal(check(v6(IPPROTO_TCP, "2606:2800::1", 443)), FRAME_PASS);
	assert_int_equal(check(v6(IPPROTO_UDP, "2606:2800::1", 443)), FRAME_PASS);
	assert_int_equal(check(arp(1)), FRAME_PASS);
	assert_int_equal(check(arp(2)), FRAME_PASS);
	assert_int_equal(check(nd(135, "fd70:616e:6461::15")), FRAME_PASS);
	assert_int_equal(check(nd(135, "fe80::5054:ff:fe70:616e")), FRAME_PASS);
	assert_int_equal(check(nd(136, "fd70:616e:6461::15")), FRAME_PASS);
	/* What is forbidden to reach is the policy's to say. */
	assert_int_equal(check(v4(IPPROTO_TCP, "127.0.0.1", 22)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_TCP, "0.0.0.0", 22)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_TCP, "240.0.0.1", 22)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_UDP, "10.0.2.3", 53)), FRAME_PASS);
}

/* One byte is another: `honest` says which values may stand there. */
static void only(struct frame f, size_t at, const char *honest, size_t n)
{
	for (int value = 0; value < 256; value++) {
		struct egress_target t;
		bool is_honest = memchr(honest, value, n);

		f.bytes[at] = (uint8_t)value;
		if ((check_into(&f, &t) != FRAME_DROP) != is_honest)
			fail_msg("byte %zu is 0x%02x: %s", at, value,
				is_honest ? "dropped" : "passed");
	}
}

static void test_wrong_macs(void **state)
{
	for (size_t i = 6; i < 12; i++) {
		struct frame frames[] = {v4(IPPROTO_TCP, "93.184.216.34", 80),
			v6(IPPROTO_UDP, "2606:2800::1", 80), arp(1), nd(135, "fd70:616e:6461::15")};

		for (size_t k = 0; k < ARRAY_SIZE(frames); k++) {
			char own = (char)frames[k].bytes[i];

			only(frames[k], i, &own, 1);
		}
	}
}

static void test_types(void **state)
{
	static const uint16_t types[] = {0x0000, 0x002E, 0x05DC, 0x0801, 0x0842, 0x22F3, 0x8035,
		0x8100, 0x86DC, 0x8847, 0x8863, 0x8864, 0x888E, 0x88A8, 0x88CC, 0x88F8, 0xFFFF};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct frame f = v4(IPPROTO_TCP, "93.184.216.34", 80);

		put_u16(f.bytes + 12, types[i]);
		assert_int_equal(check(f), FRAME_DROP);
	}
}

static void test_arp(void **state)
{
	struct frame f;

	for (size_t i = 0; i < 7; i++) {
		f = arp(1);
		only(f, IP + i, (char *)f.bytes + IP + i, 1);
	}
	only(arp(1), IP + 7, "\1\2", 2);
	/* Nobody else's address, be it that of the hardware. */
	for (size_t i = 8; i < 18; i++) {
		f = arp(2);
		only(f, IP + i, (char *)f.bytes + IP + i, 1);
	}
	f = arp(1);
	f.len--;
	assert_int_equal(check(f), FRAME_DROP);
	f.len += 19; /* as Ethernet pads it */
	assert_int_equal(check(f), FRAME_PASS);
}

static void test_v4_header(void **state)
{
	struct frame tcp = v4(IPPROTO_TCP, "93.184.216.34", 80), f;

	only(tcp, IP, "\x45", 1);         /* no options, no other version */
	only(tcp, IP + 6, "\x00\x40", 2); /* no fragments */
	only(tcp, IP + 7, "\x00", 1);
	only(tcp, IP + 9, "\x06",
		1); /* as a datagram its length would be wrong, as an echo its type */
	for (size_t i = 12; i < 16; i++)
		only(tcp, IP + i, (char *)tcp.bytes + IP + i, 1);
	/* A length of its own: not below its headers, nor above the frame's. */
	f = tcp;
	put_u16(f.bytes + IP + 2, 19);
	assert_int_equal(check(f), FRAME_DROP);
	put_u16(f.bytes + IP + 2, 20 + 19);
	assert_int_equal(check(f), FRAME_DROP);
	put_u16(f.bytes + IP + 2, 20 + 20);
	assert_int_equal(check(f), FRAME_PASS);
	put_u16(f.bytes + IP + 2, 20 + BODY + 1);
	assert_int_equal(check(f), FRAME_DROP);
	put_u16(f.bytes + IP + 2, 0xFFFF);
	assert_int_equal(check(f), FRAME_DROP);
}

static void test_v4_to_many(void **state)
{
	static const char *const many[] = {"224.0.0.1", "224.0.0.251", "239.255.255.250",
		"255.255.255.255"};

	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		assert_int_equal(check(v4(IPPROTO_TCP, many[i], 80)), FRAME_DROP);
		assert_int_equal(check(v4(IPPROTO_UDP, many[i], 67)), FRAME_DROP);
		assert_int_equal(check(v4(IPPROTO_ICMP, many[i], 0)), FRAME_DROP);
	}
}

static void test_v4_protocols(void **state)
{
	struct frame icmp = v4(IPPROTO_ICMP, "93.184.216.34", 0);

	for (int protocol = 0; protocol < 256; protocol++) {
		bool known = protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
			protocol == IPPROTO_ICMP;
		struct frame f = v4(known ? protocol : IPPROTO_UDP, "93.184.216.34", 80);

		f.bytes[IP + 9] = (uint8_t)protocol;
		assert_int_equal(check(f), known ? FRAME_PASS : FRAME_DROP);
	}
	only(icmp, L4_V4, "\x08", 1);
	put_u16(icmp.bytes + IP + 2, 20 + 7);
	assert_int_equal(check(icmp), FRAME_DROP);
}

static void test_v6_header(void **state)
{
	struct frame tcp = v6(IPPROTO_TCP, "2606:2800::1", 80), f;

	only(tcp, IP, "\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f", 16);
	for (size_t i = 8; i < 24; i++)
		only(tcp, IP + i, (char *)tcp.bytes + IP + i, 1);
	/* No extension headers: hop-by-hop, routing, fragment, destination, mobility… */
	for (int next = 0; next < 256; next++) {
		bool known = next == IPPROTO_TCP || next == IPPROTO_UDP;

		f = v6(known ? next : IPPROTO_TCP, "2606:2800::1", 80);
		f.bytes[IP + 6] = (uint8_t)next;
		assert_int_equal(check(f), known ? FRAME_PASS : FRAME_DROP);
	}
	/* Its length is the frame's: libslirp would send what is behind it, too. */
	f = tcp;
	put_u16(f.bytes + IP + 4, BODY - 1);
	assert_int_equal(check(f), FRAME_DROP);
	put_u16(f.bytes + IP + 4, BODY + 1);
	assert_int_equal(check(f), FRAME_DROP);
	put_u16(f.bytes + IP + 4, 0);
	assert_int_equal(check(f), FRAME_DROP);
	assert_int_equal(check(v6(IPPROTO_TCP, "ff02::1", 80)), FRAME_DROP);
	assert_int_equal(check(v6(IPPROTO_UDP, "ff02::1:2", 547)), FRAME_DROP);
	f = v6(IPPROTO_UDP, "2606:2800::1", 80);
	put_addr(f.bytes + IP + 8, "fe80::5054:ff:fe70:616e");
	assert_int_equal(check(f), FRAME_DROP);
}

static void test_icmp6(void **state)
{
	struct frame f = v6(IPPROTO_ICMPV6, "fd70:616e:6461::2", 0);

	only(f, L4_V6, "\x80\x87\x88", 3); /* echo, and the neighbours' protocol */
	f = v6(IPPROTO_ICMPV6, "2606:2800::1", 0);
	only(f, L4_V6, "\x87\x88", 2);
	f = v6(IPPROTO_ICMPV6, "ff02::1", 0);
	only(f, L4_V6, "\x87\x88", 2);
	assert_int_equal(check(nd(135, "::")), FRAME_DROP);
	assert_int_equal(check(nd(135, "2606:2800::1")), FRAME_DROP);
	assert_int_equal(check(nd(136, "fd70:616e:6461::2")), FRAME_DROP);
	f = nd(135, "fe80::1");
	f.len = L4_V6 + 7;
	put_u16(f.bytes + IP + 4, 7);
	assert_int_equal(check(f), FRAME_DROP);
}

static void test_transport(void **state)
{
	struct frame f;

	/* Urgent data. */
	for (int flags = 0; flags < 256; flags++) {
		f = v4(IPPROTO_TCP, "93.184.216.34", 80);
		f.bytes[L4_V4 + 13] = (uint8_t)flags;
		assert_int_equal(check(f), flags & 0x20 ? FRAME_DROP : FRAME_PASS);
		f = v6(IPPROTO_TCP, "2606:2800::1", 80);
		f.bytes[L4_V6 + 13] = (uint8_t)flags;
		assert_int_equal(check(f), flags & 0x20 ? FRAME_DROP : FRAME_PASS);
	}
	/* A datagram is as long as it says. */
	f = v4(IPPROTO_UDP, "93.184.216.34", 80);
	for (size_t len = 0; len < 64; len++) {
		put_u16(f.bytes + L4_V4 + 4, len);
		assert_int_equal(check(f), len == BODY ? FRAME_PASS : FRAME_DROP);
	}
	f = v6(IPPROTO_UDP, "2606:2800::1", 80);
	for (size_t len = 0; len < 64; len++) {
		put_u16(f.bytes + L4_V6 + 4, len);
		assert_int_equal(check(f), len == BODY ? FRAME_PASS : FRAME_DROP);
	}
	f = v4(IPPROTO_UDP, "93.184.216.34", 80);
	put_u16(f.bytes + IP + 2, 20 + 7);
	put_u16(f.bytes + L4_V4 + 4, 7);
	assert_int_equal(check(f), FRAME_DROP);
}

static void to_gateway(struct frame f, enum egress_protocol protocol, uint16_t port)
{
	struct egress_target t;

	assert_int_equal(check_into(&f, &t), FRAME_PASS_TO_GATEWAY);
	assert_int_equal(t.protocol, protocol);
	assert_int_equal(t.port, port);
	assert_memory_equal(t.addr.bytes + (egress_addr_is_v4(&t.addr) ? 12 : 0),
		f.bytes + IP + (egress_addr_is_v4(&t.addr) ? 16 : 24),
		egress_addr_is_v4(&t.addr) ? 4 : 16);
}

static void test_gateway(void **state)
{
	static const uint16_t services[] = {67, 69, 547};
	struct frame f;

	to_gateway(v4(IPPROTO_TCP, "10.0.2.2", 22), EGRESS_TCP, 22);
	to_gateway(v4(IPPROTO_UDP, "10.0.2.2", 53), EGRESS_UDP, 53);
	to_gateway(v6(IPPROTO_TCP, "fd70:616e:6461::2", 22), EGRESS_TCP, 22);
	to_gateway(v6(IPPROTO_UDP, "fd70:616e:6461::3", 53), EGRESS_UDP, 53);
	to_gateway(v6(IPPROTO_TCP, "fd70:616e:6461:0:1::", 443), EGRESS_TCP, 443);
	assert_int_equal(check(v6(IPPROTO_TCP, "fd70:616e:6461:1::", 443)), FRAME_PASS);
	assert_int_equal(check(v4(IPPROTO_ICMP, "10.0.2.2", 0)), FRAME_PASS);
	assert_int_equal(check(v6(IPPROTO_ICMPV6, "fd70:616e:6461::2", 0)), FRAME_PASS);
	/* One event for each connection, not for each of its segments. */
	f = v4(IPPROTO_TCP, "10.0.2.2", 22);
	f.bytes[L4_V4 + 13] = 0x10;
	assert_int_equal(check(f), FRAME_PASS);
	f.bytes[L4_V4 + 13] = 0x12;
	assert_int_equal(check(f), FRAME_PASS);
	/* What libslirp itself serves there: BOOTP, TFTP, DHCPv6. */
	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		assert_int_equal(check(v4(IPPROTO_UDP, "10.0.2.2", services[i])), FRAME_DROP);
		assert_int_equal(check(v6(IPPROTO_UDP, "fd70:616e:6461::2", services[i])),
			FRAME_DROP);
		assert_int_equal(check(v4(IPPROTO_UDP, "93.184.216.34", services[i])), FRAME_PASS);
	}
}

/* None is taken for another, nor read behind its end, wherever it is cut. */
static void test_cut(void **state)
{
	static const size_t least[] = {L4_V4 + BODY, L4_V4 + BODY, L4_V6 + BODY, L4_V6 + BODY,
		IP + 28};
	struct frame frames[] = {v4(IPPROTO_TCP, "93.184.216.34", 80),
		v4(IPPROTO_UDP, "93.184.216.34", 80), v6(IPPROTO_TCP, "2606:2800::1", 80),
		v6(IPPROTO_ICMPV6, "fd70:616e:6461::2", 0), arp(1)};

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		assert_int_equal(frames[i].len, least[i]);
		while (frames[i].len-- > 0)
			assert_int_equal(check(frames[i]), FRAME_DROP);
	}
}

static void test_too_long(void **state)
{
	static uint8_t big[FRAME_MAX + 1];
	struct frame f = v4(IPPROTO_TCP, "93.184.216.34", 80);
	struct egress_target t;

	memcpy(big, f.bytes, f.len);
	assert_int_equal(frame_check(big, FRAME_MAX, &t), FRAME_PASS);
	assert_int_equal(frame_check(big, FRAME_MAX + 1, &t), FRAME_DROP);
}

/* ---- errors ---- */

static uint16_t checksum(const uint8_t *p, size_t len, uint32_t sum)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return (uint16_t)~sum;
}

static void mark(struct frame f, size_t icmp, uint8_t type, uint8_t code, int want_code)
{
	size_t len = f.len - icmp;
	struct frame before;
	uint32_t pseudo = 0;

	if (icmp == L4_V6) {
		pseudo = IPPROTO_ICMPV6 + (uint32_t)len;
		for (size_t i = 8; i < 40; i += 2)
			pseudo += (uint32_t)(f.bytes[IP + i] << 8 | f.bytes[IP + i + 1]);
	}
	f.bytes[icmp] = type;
	f.bytes[icmp + 1] = code;
	put_u16(f.bytes + icmp + 2, 0);
	put_u16(f.bytes + icmp + 2, checksum(f.bytes + icmp, len, pseudo));
	before = f;
	frame_mark_prohibited(f.bytes, f.len);
	/* It is right as it was, and nothing else has changed. */
	assert_int_equal(checksum(f.bytes + icmp, len, pseudo), 0);
	assert_int_equal(f.bytes[icmp + 1], want_code < 0 ? code : want_code);
	if (want_code < 0)
		assert_memory_equal(f.bytes, before.bytes, f.len);
	f.bytes[icmp + 1] = code;
	memcpy(f.bytes + icmp + 2, before.bytes + icmp + 2, 2);
	assert_memory_equal(f.bytes, before.bytes, f.len);
}

static void test_mark_prohibited(void **state)
{
	/* Bodies that lead to all kinds of carries. */
	for (int seed = 0; seed < 1000; seed++) {
		struct frame a = v4(IPPROTO_ICMP, "10.0.2.15", 0);
		struct frame b = v6(IPPROTO_ICMPV6, "fd70:616e:6461::15", 0);

		for (size_t i = 4; i < BODY; i++) {
			a.bytes[L4_V4 + i] = (uint8_t)(seed * 7 + (int)i * seed);
			b.bytes[L4_V6 + i] = seed < 3 ? (uint8_t) - (seed % 2)
						      : (uint8_t)(seed * 13 + (int)i * seed);
		}
		mark(a, L4_V4, 3, 0, 13);
		mark(b, L4_V6, 1, 0, 1);
	}
}

static void test_mark_others(void **state)
{
	struct frame f = v4(IPPROTO_ICMP, "10.0.2.15", 0), before;

	mark(f, L4_V4, 3, 1, -1);
	mark(f, L4_V4, 3, 3, -1);
	mark(f, L4_V4, 11, 0, -1);
	mark(f, L4_V4, 0, 0, -1);
	f = v6(IPPROTO_ICMPV6, "fd70:616e:6461::15", 0);
	mark(f, L4_V6, 1, 3, -1);
	mark(f, L4_V6, 3, 0, -1);
	mark(f, L4_V6, 129, 0, -1);
	f = v4(IPPROTO_UDP, "10.0.2.15", 80);
	put_u16(f.bytes + L4_V4, 0x0300);
	before = f;
	frame_mark_prohibited(f.bytes, f.len);
	assert_memory_equal(&f, &before, sizeof(f));
	f = arp(1);
	before = f;
	frame_mark_prohibited(f.bytes, f.len);
	assert_memory_equal(&f, &before, sizeof(f));
}

/* Too short to be one. */
static void test_mark_cut(void **state)
{
	struct frame frames[] = {v4(IPPROTO_ICMP, "10.0.2.15", 0),
		v6(IPPROTO_ICMPV6, "fd70:616e:6461::15", 0)};
	static const size_t at[] = {L4_V4, L4_V6};

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		frames[i].bytes[at[i]] = i == 0 ? 3 : 1;
		for (size_t len = 0; len < at[i] + 8; len++) {
			uint8_t *exact = malloc(len ? len : 1);

			assert_non_null(exact);
			memcpy(exact, frames[i].bytes, len);
			frame_mark_prohibited(exact, len);
			assert_memory_equal(exact, frames[i].bytes, len);
			free(exact);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_honest),
		cmocka_unit_test(test_wrong_macs),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_arp),
		cmocka_unit_test(test_v4_header),
		cmocka_unit_test(test_v4_to_many),
		cmocka_unit_test(test_v4_protocols),
		cmocka_unit_test(test_v6_header),
		cmocka_unit_test(test_icmp6),
		cmocka_unit_test(test_transport),
		cmocka_unit_test(test_gateway),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_mark_prohibited),
		cmocka_unit_test(test_mark_others),
		cmocka_unit_test(test_mark_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
