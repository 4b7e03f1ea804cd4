/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a peer's socket. */
#include "mirror/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"

uid_t peer_uid(const struct sockaddr_in *peer, uint16_t port)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = {
		.header.nlmsg_len = sizeof(request),
		.header.nlmsg_type = SOCK_DIAG_BY_FAMILY,
		.header.nlmsg_flags = NLM_F_REQUEST,
		.body.sdiag_family = AF_INET,
		.body.sdiag_protocol = IPPROTO_TCP,
		.body.idiag_states = ~0U,
		.body.id.idiag_sport = peer->sin_port,
		.body.id.idiag_dport = htons(port),
		.body.id.idiag_src[0] = peer->sin_addr.s_addr,
		.body.id.idiag_dst[0] = htonl(INADDR_LOOPBACK),
		.body.id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE},
	};
	union {
		struct nlmsghdr header;
		uint8_t bytes[1024];
	} answer;
	const struct inet_diag_msg *found = NLMSG_DATA(&answer.header);
	ssize_t n = -1;

	if (fd >= 0 && send(fd, &request, sizeof(request), 0) == sizeof(request))
		n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*found)) ||
		answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return (uid_t)-1;
	return found->idiag_uid;
}
