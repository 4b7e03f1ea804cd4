/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's network card: its addresses are those of proto/guest_net.h, always. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Once, at boot: where the machine has a card it is set up, and /etc/resolv.conf written. */
int network_init(void);

/* Without a way out the card is down, so that whoever tries hears of it at once. */
int network_set_up(bool up);

/* Sockets to the kernel (sock_diag(7)), kept open: most of what a reset does is to make and to end them. */
struct network_diag {
	int list_fd; /* lists connections */
	int end_fd;  /* ends them */
};

/* -1 for what can't be had; a reset fails then. */
void network_diag_init(struct network_diag *diag);

/* Behind the card is another network stack: what was connected to the old one is reset, here, for nobody there knows of it. */
int network_reset_connections(const struct network_diag *diag);
