/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#pragma once

#include "engine/engine.h"

#define FIRECRACKER_PROGRAM "firecracker"

/* The program of its jail (src/jail); to be freed. */
char *firecracker_jail(void);

/* Whether its machines can have a network card here; else why not. */
bool firecracker_may_have_card(char *why, size_t size);

/* The `probe` of engine_ops. */
void firecracker_probe(struct engine_info *ret);
