/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations. */
#pragma once

#include "agent.h"

/* Carries a request to its operation; `unsupported` where there is none of that name. */
void ops_open(struct agent *agent, struct stream *s, const json_t *request);
