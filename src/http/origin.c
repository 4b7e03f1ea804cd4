/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a web page of somebody else's may be behind a request. */
#include "http/origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool origin_is_loopback(const char *authority)
{
	bool v6 = *authority == '[';
	size_t len = v6 ? strcspn(authority, "]") + 1 : strcspn(authority, ":");
	char host[INET6_ADDRSTRLEN + 2];
	const char *port;
	struct in6_addr a6;
	struct in_addr a4;

	if (len >= sizeof(host) || len > strlen(authority))
		return false;
	port = authority + len;
	if (*port &&
		(*port != ':' || !port[1] || strspn(port + 1, "0123456789") != strlen(port + 1)))
		return false;
	(void)snprintf(host, sizeof(host), "%.*s", (int)(v6 ? len - 2 : len), authority + v6);
	if (v6)
		return inet_pton(AF_INET6, host, &a6) == 1 && IN6_IS_ADDR_LOOPBACK(&a6);
	return strcasecmp(host, "localhost") == 0 ||
		(inet_pton(AF_INET, host, &a4) == 1 && ntohl(a4.s_addr) >> 24 == 127);
}

/* Whether a client on this machine, or a page in its browser, is at the other end. */
static bool came_in_on_loopback(const struct http_req *req)
{
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);

	if (getsockname(req->client_fd, (struct sockaddr *)&a, &len) < 0)
		return true;
	if (a.ss_family == AF_INET6) {
		const struct in6_addr *a6 = &((struct sockaddr_in6 *)&a)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(a6) ||
			(IN6_IS_ADDR_V4MAPPED(a6) && a6->s6_addr[12] == 127);
	}
	return ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == 127;
}

int origin_check(const struct http_req *req, struct err *err)
{
	const char *origin = http_req_header(req, "Origin"), *host = http_req_header(req, "Host");
	const char *page = origin ? strstr(origin, "://") : NULL;

	if (origin && (!page || !origin_is_loopback(page + 3)))
		return err_set(err, ERR_FORBIDDEN, -EPERM,
			"pages of other machines may not use this: the Origin must be localhost");
	if (host && !origin_is_loopback(host) && came_in_on_loopback(req))
		return err_set(err, ERR_FORBIDDEN, -EPERM,
			"the Host must be localhost or 127.0.0.1 here; a proxy in front of the daemon "
			"must set it");
	return 0;
}
