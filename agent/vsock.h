/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest link by vsock: a listener, whose latest connection is the link. Connections do not outlive a capture of the
 * machine, neither in the original nor in its copies; the listener does.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "link.h"

/* Whether the machine has such a device. Its driver is loaded. */
bool vsock_exists(void);

/* A listening socket, or a negative errno. The host is told that there is one now. */
int vsock_listen(struct err *err);

struct vsock {
	struct source source;
	struct link *link;
};

/* Gives the link each new connection of that socket, which stays open as long as the machine does. */
int vsock_serve(struct vsock *v, struct loop *loop, int listen_fd, struct link *link);
