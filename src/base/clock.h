/* SPDX-License-Identifier: Apache-2.0 */
/* Time: monotonic for waiting and measuring, real for showing. */
#pragma once

#include <stdint.h>
#include <time.h>

enum { CLOCK_TEXT_SIZE = 32 };

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_real_ms(void);
int64_t clock_real_ns(void);

/* CLOCK_MONOTONIC plus ms, for pthread_cond_timedwait() on a monotonic condition. */
struct timespec clock_deadline(int64_t ms);

/* RFC 3339 in UTC with milliseconds, "2026-11-29T15:16:00.123Z"; returns dst. */
char *clock_format_rfc3339(char dst[CLOCK_TEXT_SIZE], int64_t real_ms);
