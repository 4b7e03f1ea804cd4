/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the background: they go on without a stream, and their last output is kept. */
#pragma once

#include "agent.h"

op_fn process_start;
op_fn process_list;
op_fn process_get;
op_fn process_output;
op_fn process_input;
op_fn process_signal;

/* Kills all and forgets them. No stream is left that belongs to one. */
void process_free_all(struct agent *agent);
