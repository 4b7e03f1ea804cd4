/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames through all of a helper but its process: the check, libslirp, and the policy in its calls, which allows nothing. The input is
 * a row of frames, each behind its length; most are mended, or libslirp would see nothing but wrong checksums.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "egress/frame.h"
#include "egress/stack.h"

enum { V4 = 0x0800, V6 = 0x86DD, FRAMES_MAX = 64 };

static void put_u16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint16_t checksum(const uint8_t *p, size_t len, uint32_t sum)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return (uint16_t)~sum;
}

/* The checksum of a transport, over what the IP header says of it. */
static void mend_transport(uint8_t *p, size_t len, int protocol, const uint8_t *addrs,
	size_t addrs_len)
{
	size_t at = protocol == IPPROTO_TCP ? 16 : protocol == IPPROTO_UDP ? 6 : 2;
	uint32_t pseudo = 0;

	if (len < 20)
		return;
	if (protocol == IPPROTO_UDP)
		put_u16(p + 4, len);
	if (protocol != IPPROTO_ICMP) {
		pseudo = (uint32_t)len + (uint32_t)protocol;
		for (size_t i = 0; i < addrs_len; i += 2)
			pseudo += (uint32_t)(addrs[i] << 8 | addrs[i + 1]);
	}
	put_u16(p + at, 0);
	put_u16(p + at, checksum(p, len, pseudo));
}

static void mend(uint8_t *frame, size_t len)
{
	static const uint8_t mac[] = GUEST_NET_MAC;
	uint8_t *ip = frame + FRAME_HEADER;

	if (len < FRAME_HEADER + 60)
		return;
	memcpy(frame + 6, mac, sizeof(mac));
	if ((frame[12] << 8 | frame[13]) == V4) {
		ip[0] = 0x45;
		put_u16(ip + 2, len - FRAME_HEADER);
		(void)inet_pton(AF_INET, GUEST_NET_V4_ADDR, ip + 12);
		put_u16(ip + 10, 0);
		put_u16(ip + 10, checksum(ip, 20, 0));
		mend_transport(ip + 20, len - FRAME_HEADER - 20, ip[9], ip + 12, 8);
	} else if ((frame[12] << 8 | frame[13]) == V6) {
		put_u16(ip + 4, len - FRAME_HEADER - 40);
		(void)inet_pton(AF_INET6, GUEST_NET_V6_ADDR, ip + 8);
		mend_transport(ip + 40, len - FRAME_HEADER - 40, ip[6], ip + 8, 32);
	}
}

static void work(struct stack *s)
{
	static struct pollset set;

	set.n = 0;
	set.timeout_ms = -1;
	stack_fill(s, &set);
	if (poll(set.fds, set.n, 0) < 0 || stack_work(s, &set) < 0)
		__builtin_trap();
}

static void on_denied(const struct egress_target *target, const char *name, const char *why,
	void *user)
{
	if (!why[0])
		__builtin_trap();
}

static void begin(void)
{
	static struct egress_config nothing;
	static bool begun;

	if (begun)
		return;
	begun = true;
	(void)egress_config_parse("resolver 192.0.2.1\n", &nothing, NULL);
	if (host_calls_start() < 0)
		abort();
	host_calls_on_denied(on_denied, NULL);
	host_calls_set_config(&nothing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t frame[FRAME_MAX];
	struct err err = {0};
	struct stack *s;
	int pair[2];

	begin();
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0 ||
		stack_new(pair[0], &s, &err) < 0)
		abort();
	for (int i = 0; i < FRAMES_MAX && size >= 2; i++) {
		size_t len = MIN((size_t)(data[0] << 8 | data[1]) & 0x7FFF, size - 2);

		memcpy(frame, data + 2, len);
		if (!(data[0] & 0x80))
			mend(frame, len);
		data += 2 + len;
		size -= 2 + len;
		(void)send(pair[1], frame, len, MSG_DONTWAIT);
		work(s);
		while (recv(pair[1], frame, sizeof(frame), MSG_DONTWAIT) >= 0)
			continue;
	}
	work(s);
	stack_free(s);
	(void)close(pair[1]);
	return 0;
}
