/* SPDX-License-Identifier: Apache-2.0 */
/* The TAP, and the packet socket on it. */
#include "jail/card.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fs.h"
#include "proto/guest_net.h"
#include "proto/jail_card.h"

enum {
	QUEUE_FRAMES = 128, /* of 64 KiB, that a guest may leave with the host's kernel */
	SOCKET_BYTES =
		4 << 20, /* there is no way to make a guest wait: what does not fit is lost */
};

static int make_tap(uid_t owner, struct err *err)
{
	_cleanup_close_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	struct ifreq ifr = {.ifr_name = JAIL_CARD_NAME,
		.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};

	if (fd < 0)
		return err_set_errno(err, -errno, "can't open /dev/net/tun");
	if (ioctl(fd, TUNSETIFF, &ifr) < 0 || ioctl(fd, TUNSETOWNER, (unsigned long)owner) < 0 ||
		ioctl(fd, TUNSETPERSIST, 1UL) < 0)
		return err_set_errno(err, -errno, "can't make a TAP");
	return 0;
}

/* Else Linux would say who it is there. */
static int silence_v6(void)
{
	_cleanup_close_ int fd = open("/proc/sys/net/ipv6/conf/" JAIL_CARD_NAME "/disable_ipv6",
		O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return fs_write_all(fd, "1", 1);
}

/* By netlink, for ioctl(2) lets nobody in a user namespace set the length of the queue. */
static int set_up(void)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		struct ifinfomsg body;
		struct {
			struct rtattr head;
			uint32_t value;
		} attributes[2];
	} request = {
		.header.nlmsg_len = sizeof(request),
		.header.nlmsg_type = RTM_NEWLINK,
		.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		.body.ifi_index = (int)if_nametoindex(JAIL_CARD_NAME),
		.body.ifi_flags = IFF_UP,
		.body.ifi_change = IFF_UP,
		.attributes = {{{RTA_LENGTH(4), IFLA_MTU}, GUEST_NET_MTU},
			{{RTA_LENGTH(4), IFLA_TXQLEN}, QUEUE_FRAMES}},
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr body;
	} answer;
	int r = silence_v6();

	if (r < 0)
		return r;
	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
		recv(fd, &answer, sizeof(answer), 0) < 0)
		return -errno;
	return answer.body.error;
}

static int make_socket(void)
{
	static const int one = 1, bytes = SOCKET_BYTES;
	const struct sockaddr_ll sa = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(JAIL_CARD_NAME)};
	_cleanup_close_ int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) < 0 ||
		bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	/* Without privileges only as large as Linux allows anybody. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (fd == JAIL_CARD_FD)
		return fcntl(steal_fd(&fd), F_SETFD, 0) < 0 ? -errno : 0;
	return dup2(fd, JAIL_CARD_FD) < 0 ? -errno : 0;
}

int card_make(uid_t owner, struct err *err)
{
	int r = make_tap(owner, err);

	if (r < 0)
		return r;
	r = set_up();
	if (r == 0)
		r = make_socket();
	return r < 0 ? err_set_errno(err, r, "can't set up a TAP") : 0;
}
