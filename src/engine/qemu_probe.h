/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a QEMU here that we can use, and with which acceleration? */
#pragma once

#include "engine/engine.h"

#define QEMU_PROGRAM "qemu-system-x86_64"

/* The `probe` of engine_ops. */
void qemu_probe(struct engine_info *ret);
