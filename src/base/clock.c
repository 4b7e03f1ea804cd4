/* SPDX-License-Identifier: Apache-2.0 */
/* Time: monotonic for waiting and measuring, real for showing. */
#include "base/clock.h"

#include <stdio.h>

static int64_t now_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* both clocks always exist on Linux */
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_mono_ms(void)
{
	return now_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_mono_us(void)
{
	return now_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_real_ms(void)
{
	return now_ns(CLOCK_REALTIME) / 1000000;
}

int64_t clock_real_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

struct timespec clock_deadline(int64_t ms)
{
	int64_t ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000;

	return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

char *clock_format_rfc3339(char dst[CLOCK_TEXT_SIZE], int64_t real_ms)
{
	time_t s = real_ms / 1000;
	struct tm tm;
	size_t n;

	(void)gmtime_r(&s, &tm);
	n = strftime(dst, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(dst + n, CLOCK_TEXT_SIZE - n, ".%03dZ", (int)(real_ms % 1000));
	return dst;
}
