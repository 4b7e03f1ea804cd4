/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a folder, told as they happen: `watch`. */
#pragma once

#include "agent.h"

op_fn watch_open;
