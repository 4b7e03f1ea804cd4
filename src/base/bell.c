/* SPDX-License-Identifier: Apache-2.0 */
/* A bell: a thread waits for it and for its client to hang up; any other rings it. */
#include "base/bell.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

static const int64_t POLL_MS_MAX = 3600000;

int bell_new(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void bell_ring(int bell)
{
	static const uint64_t one = 1;

	(void)!write(bell, &one, sizeof(one)); /* fails only where it has rung 2^64 - 2 times */
}

void followers_ring(struct list *followers)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, followers)
		bell_ring(container_of(it, struct follower, node)->bell);
}

int bell_wait(int bell, int64_t deadline_ms, int hangup_fd)
{
	struct pollfd p[2] = {
		{.fd = bell, .events = POLLIN},
		{.fd = hangup_fd, .events = POLLRDHUP},
	};
	int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_mono_ms();
	uint64_t n;
	int r;

	if (deadline_ms >= 0 && left <= 0)
		return -ETIMEDOUT; /* even where it rings all the time */
	r = poll(p, 2, (int)MIN(left, POLL_MS_MAX));
	if (r < 0 && errno != EINTR)
		return -errno;
	if (r > 0 && p[1].revents)
		return -ECONNRESET;
	if (r > 0)
		(void)!read(bell, &n, sizeof(n)); /* so that it can ring again */
	return r == 0 && left >= 0 && left <= POLL_MS_MAX ? -ETIMEDOUT : 0;
}
