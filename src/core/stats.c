/* SPDX-License-Identifier: Apache-2.0 */
/* What core counts for /metrics; under its lock. */
#include "core/stats.h"

#include "core/core_internal.h"

static const char *const boot_modes[] = {
	[BOOT_SNAPSHOT] = "snapshot",
	[BOOT_FORK] = "fork",
	[BOOT_WARM] = "warm",
	[BOOT_WAKE] = "wake",
};
static_assert(ARRAY_SIZE(boot_modes) == _BOOT_MODE_MAX, "a name for each");

static const char *const capture_uses[] = {
	[CAPTURE_SNAPSHOT] = "snapshot",
	[CAPTURE_FORK] = "fork",
	[CAPTURE_HIBERNATE] = "hibernate",
};
static_assert(ARRAY_SIZE(capture_uses) == _CAPTURE_USE_MAX, "a name for each");

const struct histogram_family boot_seconds_family = {
	.name = "pandastack_sandbox_boot_seconds",
	.help = "Time that a sandbox took to be ready, by how it came.",
	.label = "boot_mode",
	.values = boot_modes,
	.n_values = _BOOT_MODE_MAX,
	.n_bounds = 11,
	.bounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
};

const struct histogram_family capture_pause_seconds_family = {
	.name = "pandastack_capture_pause_seconds",
	.help = "Time that a machine stood still to be captured.",
	.label = "operation",
	.values = capture_uses,
	.n_values = _CAPTURE_USE_MAX,
	.n_bounds = 12,
	.bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
};

const struct histogram_family capture_bytes_family = {
	.name = "pandastack_capture_bytes",
	.help = "Memory that a capture copied.",
	.label = "operation",
	.values = capture_uses,
	.n_values = _CAPTURE_USE_MAX,
	.n_bounds = 7,
	.bounds = {MIB(1), MIB(4), MIB(16), MIB(64), MIB(256), MIB(1024), MIB(4096)},
};

const char *boot_mode_name(enum boot_mode mode)
{
	return boot_modes[mode];
}

void core_count_boot(struct core *core, enum boot_mode mode, int64_t boot_us)
{
	pthread_mutex_lock(&core->lock);
	histogram_add(&boot_seconds_family, &core->stats.boot_seconds[mode], (double)boot_us / 1e6);
	pthread_mutex_unlock(&core->lock);
}

void core_count_capture(struct core *core, enum capture_use use, const struct capture_stats *stats)
{
	pthread_mutex_lock(&core->lock);
	histogram_add(&capture_pause_seconds_family, &core->stats.capture_pause_seconds[use],
		(double)stats->pause_us / 1e6);
	histogram_add(&capture_bytes_family, &core->stats.capture_bytes[use],
		(double)stats->delta_bytes);
	pthread_mutex_unlock(&core->lock);
}

static int count_state(struct sandbox *sb, void *user)
{
	struct core_stats *stats = user;

	stats->sandboxes[sandbox_state_of(sb)]++;
	return 0;
}

void core_stats(struct core *core, struct core_stats *ret)
{
	pthread_mutex_lock(&core->lock);
	*ret = core->stats;
	pthread_mutex_unlock(&core->lock);
	core_each(core, count_state, ret);
	pool_stats(core->pool, &ret->pools);
}
