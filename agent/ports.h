/* SPDX-License-Identifier: Apache-2.0 */
/* What listens in this guest: `ports`. */
#pragma once

#include <stdio.h>

#include "agent.h"

/* A bit for each port. */
struct port_set {
	uint8_t bits[(UINT16_MAX + 1) / 8];
};

/* Adds the ports of a file in the form of /proc/net/tcp or tcp6 that `connect` could reach. */
void ports_scan(FILE *f, struct port_set *set);

op_fn ports_list;
