/* SPDX-License-Identifier: Apache-2.0 */
/* Who is on the other end of a connection within this machine, as its kernel says (sock_diag(7)). */
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/types.h>

/* The user whose socket at `peer` is connected to that port of 127.0.0.1, or (uid_t)-1 where the kernel does not say. */
uid_t peer_uid(const struct sockaddr_in *peer, uint16_t port);
