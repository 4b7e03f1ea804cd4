/* SPDX-License-Identifier: Apache-2.0 */
/* What must differ between two machines restored from one snapshot: `resume`. */
#pragma once

#include "agent.h"

op_fn identity_resume;

/* Prepares a boot id of our own (as PID 1, once /proc and /run are there). */
void identity_init(void);
