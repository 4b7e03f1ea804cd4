/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: `exec`. */
#pragma once

#include "agent.h"

op_fn exec_open;

/* Kills all commands; they are freed as their exits are reaped. */
void exec_kill_all(struct agent *agent);
