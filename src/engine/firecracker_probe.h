/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#pragma once

#include "engine/engine.h"

#define FIRECRACKER_PROGRAM "firecracker"

/* The program of its jail (src/jail); to be freed. */
char *firecracker_jail(void);

/* Of engine_ops. */
void firecracker_probe(struct engine_info *ret);
void firecracker_prepare(struct engine_info *info);
