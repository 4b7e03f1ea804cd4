/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: named kernels with a queue of cells each. */
#pragma once

#include "agent.h"

op_fn session_create;
op_fn session_run;
op_fn session_input;
op_fn session_interrupt;
op_fn session_restart;
op_fn session_delete;
op_fn session_list;

/* This machine has become a copy of another: kernel_reseed() for all. */
void session_reseed_all(struct agent *agent);
void session_free_all(struct agent *agent);
