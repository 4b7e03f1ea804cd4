/* SPDX-License-Identifier: Apache-2.0 */
/* How this machine would send to an address, as its kernel says at that moment (rtnetlink(7)). */
#pragma once

#include "proto/egress_policy.h"

/* The socket for route_of(): owned by the caller; or a negative errno. */
int route_open(void);

/* EGRESS_ROUTE_OWN where the kernel does not say: then nothing is reached. An address without a route is beyond. */
enum egress_route route_of(int fd, const struct egress_addr *addr);
