/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/parse.h"

enum { BACKLOG = 128 };

/* Cuts "HOST:PORT" in place. */
static int split(char *address, const char **ret_host, const char **ret_port)
{
	char *colon = strrchr(address, ':');
	uint64_t port;
	size_t len;

	if (!colon || parse_u64(colon + 1, 0, UINT16_MAX, &port) < 0)
		return -EINVAL;
	*colon = '\0';
	len = strlen(address);
	if (address[0] == '[' && address[len - 1] == ']') {
		address[len - 1] = '\0';
		address++;
	} else if (strchr(address, ':')) {
		return -EINVAL; /* IPv6 needs brackets, or its port is a guess */
	}
	*ret_host = address;
	*ret_port = colon + 1;
	return *address ? 0 : -EINVAL;
}

static int bind_and_listen(const struct addrinfo *ai)
{
	_cleanup_close_ int fd = socket(ai->ai_family,
		ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
	int on = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return steal_fd(&fd);
}

int listen_open(const char *address, int *ret_fd, struct err *err)
{
	_cleanup_free_ char *copy = strdup(address);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
	const char *host, *port;
	int r;

	if (!copy)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	if (split(copy, &host, &port) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"can't listen on \"%s\": it must be HOST:PORT, such as 127.0.0.1:8080 or "
			"[::1]:8080",
			address);
	r = getaddrinfo(host, port, &hints, &found);
	if (r != 0)
		return err_set(err, ERR_INVALID, -EINVAL, "can't listen on \"%s\": %s", address,
			gai_strerror(r));
	r = bind_and_listen(found);
	freeaddrinfo(found);
	if (r == -EADDRINUSE)
		return err_set(err, ERR_CONFLICT, r,
			"can't listen on %s: something listens there already; end it, or choose "
			"another port with --listen (port 0: any that is free)",
			address);
	if (r < 0)
		return err_set_errno(err, r, "can't listen on %s", address);
	*ret_fd = r;
	return 0;
}

int listen_address(int fd, char *dst, size_t size, struct err *err)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a;
	socklen_t len = sizeof(a);
	char host[INET6_ADDRSTRLEN];

	if (getsockname(fd, &a.any, &len) < 0)
		return err_set_errno(err, -errno, "can't find out the listening address");
	if (a.any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host));
		(void)snprintf(dst, size, "[%s]:%d", host, ntohs(a.v6.sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host));
		(void)snprintf(dst, size, "%s:%d", host, ntohs(a.v4.sin_port));
	}
	return 0;
}
