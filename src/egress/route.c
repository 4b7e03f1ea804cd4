/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the kernel for the route to an address. */
#include "egress/route.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"

enum {
	/* A route without a gateway leads to machines on the same wire, unless it is that to everywhere through a tunnel. */
	EVERYWHERE_BITS_V4 = 1,
	EVERYWHERE_BITS_V6 = 3,
	ANSWER_BYTES = 8192,
};

int route_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

static int ask(int fd, const struct egress_addr *addr)
{
	bool v4 = egress_addr_is_v4(addr);
	size_t size = v4 ? 4 : 16;
	struct {
		struct nlmsghdr header;
		struct rtmsg route;
		struct rtattr attr;
		uint8_t addr[16];
	} request = {
		.header.nlmsg_len =
			(uint32_t)(NLMSG_LENGTH(sizeof(struct rtmsg)) + RTA_LENGTH(size)),
		.header.nlmsg_type = RTM_GETROUTE,
		.header.nlmsg_flags = NLM_F_REQUEST,
		.route.rtm_family = v4 ? AF_INET : AF_INET6,
		.route.rtm_dst_len = (unsigned char)(size * 8),
		.route.rtm_flags = RTM_F_FIB_MATCH,
		.attr.rta_len = (unsigned short)RTA_LENGTH(size),
		.attr.rta_type = RTA_DST,
	};
	ssize_t n;

	memcpy(request.addr, addr->bytes + 16 - size, size);
	n = send(fd, &request, request.header.nlmsg_len, 0);
	return n == (ssize_t)request.header.nlmsg_len ? 0 : -EIO;
}

static enum egress_route judge(struct nlmsghdr *answer)
{
	struct rtmsg *route = NLMSG_DATA(answer);
	struct rtattr *attr = RTM_RTA(route);
	int len = (int)(answer->nlmsg_len - NLMSG_LENGTH(sizeof(*route)));
	unsigned int everywhere =
		route->rtm_family == AF_INET ? EVERYWHERE_BITS_V4 : EVERYWHERE_BITS_V6;

	switch (route->rtm_type) {
	case RTN_UNICAST:
		break;
	case RTN_BROADCAST:
	case RTN_ANYCAST:
	case RTN_MULTICAST:
		return EGRESS_ROUTE_LINK;
	case RTN_UNREACHABLE:
	case RTN_BLACKHOLE:
	case RTN_PROHIBIT:
		return EGRESS_ROUTE_BEYOND; /* and the kernel refuses it */
	default:
		return EGRESS_ROUTE_OWN;
	}
	for (; RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
		if (attr->rta_type == RTA_GATEWAY || attr->rta_type == RTA_VIA ||
			attr->rta_type == RTA_MULTIPATH)
			return EGRESS_ROUTE_BEYOND;
	}
	return route->rtm_dst_len <= everywhere ? EGRESS_ROUTE_BEYOND : EGRESS_ROUTE_LINK;
}

enum egress_route route_of(int fd, const struct egress_addr *addr)
{
	union {
		struct nlmsghdr header;
		char bytes[ANSWER_BYTES];
	} answer;
	const struct nlmsgerr *error;
	ssize_t n;

	if (ask(fd, addr) < 0)
		return EGRESS_ROUTE_OWN;
	do
		n = recv(fd, &answer, sizeof(answer), 0); /* the kernel has answered already */
	while (n < 0 && errno == EINTR);
	if (n <= 0 || !NLMSG_OK(&answer.header, (size_t)n))
		return EGRESS_ROUTE_OWN;
	if (answer.header.nlmsg_type == RTM_NEWROUTE &&
		answer.header.nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg)))
		return judge(&answer.header);
	error = NLMSG_DATA(&answer.header);
	if (answer.header.nlmsg_type == NLMSG_ERROR &&
		answer.header.nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) &&
		(error->error == -ENETUNREACH || error->error == -EHOSTUNREACH))
		return EGRESS_ROUTE_BEYOND;
	return EGRESS_ROUTE_OWN;
}
