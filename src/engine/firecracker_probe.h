/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#pragma once

#include "engine/engine.h"

#define FIRECRACKER_PROGRAM "firecracker"

/* The `probe` of engine_ops. */
void firecracker_probe(struct engine_info *ret);
