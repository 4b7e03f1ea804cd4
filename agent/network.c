/* SPDX-License-Identifier: Apache-2.0 */
/* Setting up the network card, and ending connections that lead nowhere. */
/*
 * Theory of operation
 *
 * The card is configured by hand (netdevice(7), no DHCP, no router advertisements): its addresses never change, and an
 * idle machine has no timers for them. It has no network of its own, only a gateway: so that what is for a neighbour goes there
 * too, and is refused at once, where a question for a neighbour's hardware address would wait for an answer. The gateway's own is
 * known: what a machine sends is for somebody, and who stands behind its card (the daemon, core/egress.h) need not wake for less.
 *
 * A machine that is restored finds a new network stack behind its card, which knows none of its connections: a program
 * that writes gets a reset, but one that only reads would wait for ever. So the kernel is told to abort them (sock_diag(7),
 * SOCK_DESTROY), all but those within the machine.
 */
#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/inet_diag.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macros.h"
#include "file_io.h"
#include "proto/guest_net.h"

static const char card[] = "eth0";

enum { DUMP_BYTES = 32768 };

/* linux/ipv6.h, which does not go with the C library's headers. */
struct in6_request {
	struct in6_addr addr;
	uint32_t prefix;
	int index;
};

static const struct {
	const char *name;
	const char *value;
} v6_settings[] = {
	{"accept_ra", "0"},
	{"autoconf", "0"},
	{"router_solicitations", "0"},
	{"accept_dad", "0"}, /* nobody else is there */
	{"dad_transmits", "0"},
};

static int set_v6_options(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(v6_settings); i++) {
		char path[96];
		int r;

		(void)snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", card,
			v6_settings[i].name);
		r = file_write_small(AT_FDCWD, path, v6_settings[i].value);
		if (r < 0)
			return r;
	}
	return 0;
}

static struct ifreq request_for_card(void)
{
	struct ifreq ifr = {0};

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", card);
	return ifr;
}

static void put_v4(struct sockaddr *dst, const char *text)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};

	(void)inet_pton(AF_INET, text, &sa.sin_addr); /* ours are right */
	memcpy(dst, &sa, sizeof(sa));
}

static int set_flags(int fd, bool up)
{
	struct ifreq ifr = request_for_card();

	if (up)
		ifr.ifr_flags = IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int set_v4(int fd)
{
	struct ifreq ifr = request_for_card();

	put_v4(&ifr.ifr_addr, GUEST_NET_V4_ADDR);
	if (ioctl(fd, SIOCSIFADDR, &ifr) < 0)
		return -errno;
	put_v4(&ifr.ifr_netmask, "255.255.255.255");
	return ioctl(fd, SIOCSIFNETMASK, &ifr) < 0 ? -errno : 0;
}

static int add_route(int fd, const void *route)
{
	return ioctl(fd, SIOCADDRT, route) < 0 && errno != EEXIST ? -errno : 0;
}

static void add_attribute(struct nlmsghdr *h, uint16_t type, const void *data, size_t len)
{
	struct rtattr *attr = (struct rtattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(attr), data, len);
	h->nlmsg_len = NLMSG_ALIGN(h->nlmsg_len) + RTA_SPACE((uint32_t)len);
}

/* The gateway's hardware address, for good. */
static int add_neighbour(int fd, int family, const char *gateway)
{
	struct {
		struct nlmsghdr header;
		struct ndmsg body;
		char attributes[RTA_SPACE(sizeof(struct in6_addr)) + RTA_SPACE(6)];
	} request = {
		.header.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
		.header.nlmsg_type = RTM_NEWNEIGH,
		.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE,
		.body.ndm_family = (uint8_t)family,
		.body.ndm_ifindex = (int)if_nametoindex(card),
		.body.ndm_state = NUD_PERMANENT,
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr body;
	} answer;
	static const uint8_t mac[] = GUEST_NET_GATEWAY_MAC;
	struct in6_addr addr;

	(void)inet_pton(family, gateway, &addr); /* ours are right */
	add_attribute(&request.header, NDA_DST, &addr, family == AF_INET ? 4 : sizeof(addr));
	add_attribute(&request.header, NDA_LLADDR, mac, sizeof(mac));
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0 ||
		recv(fd, &answer, sizeof(answer), 0) < 0)
		return -errno;
	return answer.body.error;
}

static int add_neighbours(void)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int r = fd < 0 ? -errno : add_neighbour(fd, AF_INET, GUEST_NET_V4_GATEWAY);

	return r == 0 ? add_neighbour(fd, AF_INET6, GUEST_NET_V6_GATEWAY) : r;
}

/* Routes, neighbours and IPv6 addresses go when the card goes down. */
static int add_v4_routes(int fd)
{
	char device[] = "eth0";
	struct rtentry gateway = {.rt_flags = RTF_UP | RTF_HOST, .rt_dev = device};
	struct rtentry all = {.rt_flags = RTF_UP | RTF_GATEWAY};
	int r;

	put_v4(&gateway.rt_dst, GUEST_NET_V4_GATEWAY);
	put_v4(&all.rt_dst, "0.0.0.0");
	put_v4(&all.rt_genmask, "0.0.0.0");
	put_v4(&all.rt_gateway, GUEST_NET_V4_GATEWAY);
	r = add_route(fd, &gateway);
	return r == 0 ? add_route(fd, &all) : r;
}

static int add_v6(void)
{
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int index = (int)if_nametoindex(card), r;
	struct in6_request addr = {.prefix = 128, .index = index};
	struct in6_rtmsg gateway = {.rtmsg_flags = RTF_UP | RTF_HOST,
		.rtmsg_dst_len = 128,
		.rtmsg_metric = 256,
		.rtmsg_ifindex = index};
	struct in6_rtmsg all = {.rtmsg_flags = RTF_UP | RTF_GATEWAY,
		.rtmsg_metric = 1024,
		.rtmsg_ifindex = index};

	/* Ours are right. */
	(void)inet_pton(AF_INET6, GUEST_NET_V6_ADDR, &addr.addr);
	(void)inet_pton(AF_INET6, GUEST_NET_V6_GATEWAY, &gateway.rtmsg_dst);
	(void)inet_pton(AF_INET6, GUEST_NET_V6_GATEWAY, &all.rtmsg_gateway);
	if (fd < 0 || (ioctl(fd, SIOCSIFADDR, &addr) < 0 && errno != EEXIST))
		return -errno;
	r = add_route(fd, &gateway);
	return r == 0 ? add_route(fd, &all) : r;
}

int network_set_up(bool up)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (!up) {
		r = set_flags(fd, false);
		return r == -ENODEV ? 0 : r; /* a machine without a card */
	}
	r = set_v4(fd);
	if (r == 0)
		r = set_flags(fd, true);
	if (r == 0)
		r = add_v4_routes(fd);
	if (r == 0)
		r = add_v6();
	return r == 0 ? add_neighbours() : r;
}

/*
 * What a card of QEMU's says by itself, and Firecracker's does not: how long a frame may be, and that whoever is behind it gets
 * what we send as it is, so that a packet's checksum must be right in it.
 */
static int set_framing(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ethtool_value off = {.cmd = ETHTOOL_STXCSUM};
	struct ifreq mtu = request_for_card(), checksums = request_for_card();

	mtu.ifr_mtu = GUEST_NET_MTU;
	checksums.ifr_data = (void *)&off;
	if (fd < 0 || ioctl(fd, SIOCSIFMTU, &mtu) < 0 ||
		(ioctl(fd, SIOCETHTOOL, &checksums) < 0 && errno != EOPNOTSUPP))
		return -errno;
	return 0;
}

int network_init(void)
{
	static const char *const resolvers[] = GUEST_NET_RESOLVERS;
	char text[160] = "";
	size_t len = 0;
	int r;

	if (if_nametoindex(card) == 0)
		return -ENODEV;
	for (size_t i = 0; i < ARRAY_SIZE(resolvers); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "nameserver %s\n",
			resolvers[i]);
	r = file_put("/etc/resolv.conf", text, 0644);
	if (r == 0)
		r = set_v6_options();
	if (r == 0)
		r = set_framing();
	return r == 0 ? network_set_up(true) : r;
}

/* ---- resetting ---- */

static bool is_within(const struct inet_diag_msg *m)
{
	const uint8_t *dst = (const uint8_t *)m->id.idiag_dst;
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	static const struct in6_addr loopback = IN6ADDR_LOOPBACK_INIT;

	if (m->idiag_family == AF_INET)
		return dst[0] == 127;
	if (memcmp(dst, mapped, sizeof(mapped)) == 0)
		return dst[12] == 127;
	return memcmp(dst, &loopback, sizeof(loopback)) == 0;
}

static int send_diag(int fd, uint16_t type, uint16_t flags, const struct inet_diag_req_v2 *body)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = {
		.header.nlmsg_len = sizeof(request),
		.header.nlmsg_type = type,
		.header.nlmsg_flags = NLM_F_REQUEST | flags,
		.body = *body,
	};

	return send(fd, &request, sizeof(request), 0) == sizeof(request) ? 0 : -errno;
}

static void destroy(int fd, const struct inet_diag_msg *m)
{
	const struct inet_diag_req_v2 body = {.sdiag_family = m->idiag_family,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ~0U,
		.id = m->id};

	/* One that has ended by itself meanwhile is gone as well. */
	(void)send_diag(fd, SOCK_DESTROY, 0, &body);
}

void network_diag_init(struct network_diag *diag)
{
	diag->list_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	diag->end_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

static int reset_family(const struct network_diag *diag, uint8_t family, char *dump)
{
	const struct inet_diag_req_v2 body = {.sdiag_family = family,
		.sdiag_protocol = IPPROTO_TCP,
		/* Not those that listen or are closed. */
		.idiag_states = ~(1U << 10 | 1U << 7)};
	int r = send_diag(diag->list_fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &body);

	while (r == 0) {
		ssize_t n = recv(diag->list_fd, dump, DUMP_BYTES, 0);
		size_t left = n > 0 ? (size_t)n : 0;

		if (n <= 0)
			return -errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)dump; NLMSG_OK(h, left);
			h = NLMSG_NEXT(h, left)) {
			const struct inet_diag_msg *m = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return -ENOENT; /* the kernel has no module for it */
			if (!is_within(m))
				destroy(diag->end_fd, m);
		}
	}
	return r;
}

int network_reset_connections(const struct network_diag *diag)
{
	_cleanup_free_ char *dump = xcalloc(1, DUMP_BYTES);
	int r = reset_family(diag, AF_INET, dump);

	if (r == 0)
		r = reset_family(diag, AF_INET6, dump);
	while (recv(diag->end_fd, dump, DUMP_BYTES, MSG_DONTWAIT) > 0)
		; /* what it says of those that had ended by themselves */
	return r;
}
