/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile guest: the first byte says how much comes before the answer to HELLO; three streams read the rest. */
#include <errno.h>
#include <sys/socket.h>

#include "link/link.h"

enum { STREAMS = 3, HELLO_BYTES = LINK_HEADER_BYTES + LINK_NONCE_BYTES + 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct link_hub *hub;
	struct link_stream *s[STREAMS];
	size_t before = size ? MIN(data[0], size - 1) : 0;
	struct link_event ev;
	uint8_t hello[HELLO_BYTES];
	struct link *link;
	int fds[2];

	if (size == 0 || (!hub && link_hub_new(&hub, NULL) < 0) ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return 0;
	if (link_new(hub, fds[0], false, &link, NULL) < 0 ||
		recv(fds[1], hello, sizeof(hello), MSG_WAITALL) < 0)
		abort();
	for (int i = 0; i < STREAMS; i++)
		if (link_open(link, json_object(), &s[i], NULL) < 0)
			abort();
	(void)send(fds[1], data + 1, before, MSG_NOSIGNAL); /* these may find the link broken */
	(void)send(fds[1], hello, sizeof(hello), MSG_NOSIGNAL);
	(void)send(fds[1], data + 1 + before, size - 1 - before, MSG_NOSIGNAL);
	(void)shutdown(fds[1], SHUT_WR);
	for (int i = 0; i < STREAMS; i++) {
		for (int r; (r = link_next(s[i], &ev, -1, -1, NULL)) != -EPIPE;)
			if (r > 0)
				link_event_done(s[i], &ev);
		link_stream_free(s[i]);
	}
	link_unref(link);
	return close(fds[1]);
}
