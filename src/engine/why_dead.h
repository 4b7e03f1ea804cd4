/* SPDX-License-Identifier: Apache-2.0 */
/* Why a machine has ended, for people: from its console, the status of its process, and what that has printed. */
#pragma once

#include "engine/engine.h"

/* `why_dead` of engine_ops, for the process of that program, which has been reaped; `log` is the end of what it said. */
void why_dead(const char *program, struct vm *vm, const char *log, size_t log_len, char *msg,
	size_t size);
