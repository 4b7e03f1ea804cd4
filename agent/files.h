/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the guest: read, write, stat, list, mkdir, move, remove. */
#pragma once

#include "agent.h"

/* How the name of a file begins that is being written; it gets another one when all is there. */
#define FILES_TEMP_PREFIX ".pandastack-"

op_fn files_read;
op_fn files_write;
op_fn files_stat;
op_fn files_list;
op_fn files_mkdir;
op_fn files_move;
op_fn files_remove;
