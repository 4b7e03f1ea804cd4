/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers in this guest: `connect`. */
#pragma once

#include "agent.h"

op_fn tunnel_open;
