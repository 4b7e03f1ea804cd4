/* SPDX-License-Identifier: Apache-2.0 */
/* Taking over the machines that an earlier daemon left running. */
#pragma once

#include "core/sandbox_internal.h"

/*
 * For all sandboxes of the registry, which are CREATING: those whose machine answers become RUNNING, the others
 * FAILED with the reason, and their machines are ended. Several at a time: a guest that does not answer takes
 * seconds, and must not keep the others waiting.
 */
void adopt_all(struct core *core, struct link_hub *hub, const struct engine_ops *ops);
