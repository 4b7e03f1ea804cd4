/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#pragma once

#include "engine/engine.h"

/*
 * Which Firecracker it is, for this process: a name on the PATH ("firecracker", unless told otherwise), or a file. To be said before any
 * engine is looked at.
 */
int firecracker_use(const char *name, struct err *err);
const char *firecracker_program(void);

/* The program of its jail (src/jail); to be freed. */
char *firecracker_jail(void);

/* Of engine_ops. */
void firecracker_probe(struct engine_info *ret);
void firecracker_prepare(struct engine_info *info);
