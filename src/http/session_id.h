/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that tell when they were made: UUIDs of version 7 (RFC 9562, section 5.7). */
#pragma once

#include <stdint.h>

enum { SESSION_ID_SIZE = 37 };

void session_id_make(char dst[SESSION_ID_SIZE]);

/* The time in an id, wall clock. -EINVAL when it is no id of ours. */
int session_id_time(const char *id, int64_t *ret_ms);
