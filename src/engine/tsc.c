/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of this machine's time stamp counter. */
#include "engine/tsc.h"

#include <time.h>
#include <x86intrin.h>

#include "base/macros.h"

struct sample {
	int64_t ns;
	uint64_t ticks;
};

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts); /* always exists */
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Both clocks at one moment: the tightest of some tries, for an interrupt may fall between them. */
static struct sample take_sample(void)
{
	struct sample best = {0};
	int64_t best_span = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t before = now_ns();
		uint64_t ticks = __rdtsc();
		int64_t after = now_ns();

		if (after - before < best_span) {
			best_span = after - before;
			best = (struct sample){.ns = before + (after - before) / 2, .ticks = ticks};
		}
	}
	return best;
}

uint64_t tsc_measure_khz(void)
{
	const struct timespec pause = {.tv_nsec = 100 * 1000000};
	struct sample a = take_sample(), b;

	(void)nanosleep(&pause, NULL); /* a shorter sleep only costs precision */
	b = take_sample();
	return (b.ticks - a.ticks) * 1000000 / (uint64_t)MAX(b.ns - a.ns, 1);
}
