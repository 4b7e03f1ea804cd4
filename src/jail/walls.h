/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, and a root in which there is only what is named. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "jail/ids.h"

enum { WALL_HOLES_MAX = 16 };

struct walls {
	struct wall_hole {
		char *path; /* owned; absolute. The first is the folder that the program works in */
		bool writable;
	} holes[WALL_HOLES_MAX];
	unsigned int n_holes;
};

void walls_done(struct walls *w);

/* Namespaces for the network, mounts, IPC and the host's name, and for users where we are not root. -EPERM: the host allows none. */
int walls_enter(struct err *err);

/* A root with the holes, with the devices that a machine needs, and with the host's libraries. */
int walls_build(const struct walls *w, const struct ids *ids, bool card, struct err *err);
