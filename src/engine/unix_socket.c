/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets by folder and name. */
#include "engine/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/macros.h"

static struct sockaddr_un address(int dir_fd, const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dir_fd, name);

	assert(n > 0 && (size_t)n < sizeof(sa.sun_path));
	(void)n;
	return sa;
}

int unix_listen(int dir_fd, const char *name, int type)
{
	struct sockaddr_un sa = address(dir_fd, name);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 4) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

int unix_connect(int dir_fd, const char *name, int type)
{
	_cleanup_close_ int at_fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	/* Who listens may be a program that its guest has taken over, and never accept. */
	_cleanup_close_ int fd =
		at_fd < 0 ? -1 : socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d", at_fd);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		(!(type & SOCK_NONBLOCK) && fcntl(fd, F_SETFL, 0) < 0))
		return -errno;
	return steal_fd(&fd);
}

int unix_pair_up(int dir_fd, const char *own, const char *other)
{
	struct sockaddr_un from = address(dir_fd, own), to = address(dir_fd, other);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
		connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}
