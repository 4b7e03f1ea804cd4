/* SPDX-License-Identifier: Apache-2.0 */
/* What core counts for /metrics. */
#pragma once

#include "base/histogram.h"
#include "core/pool.h"
#include "core/sandbox_state.h"

/* How a machine came to run. */
enum boot_mode {
	BOOT_SNAPSHOT, /* from the state of its template or of a snapshot */
	BOOT_FORK,
	BOOT_WARM, /* as a spare that ran already */
	BOOT_WAKE, /* from hibernation: never the mode of a sandbox, which keeps that of its create */
	_BOOT_MODE_MAX,
};
const char *boot_mode_name(enum boot_mode mode);

/* What a machine is captured for. */
enum capture_use {
	CAPTURE_SNAPSHOT,
	CAPTURE_FORK,
	CAPTURE_HIBERNATE,
	_CAPTURE_USE_MAX,
};

extern const struct histogram_family boot_seconds_family;          /* by boot_mode */
extern const struct histogram_family capture_pause_seconds_family; /* by capture_use */
extern const struct histogram_family capture_bytes_family;         /* likewise */

struct core_stats {
	unsigned int sandboxes[_SANDBOX_STATE_MAX];
	uint64_t created, failed, expired, deleted;
	struct histogram boot_seconds[_BOOT_MODE_MAX];
	struct histogram capture_pause_seconds[_CAPTURE_USE_MAX];
	struct histogram capture_bytes[_CAPTURE_USE_MAX];
	struct pool_stats pools;
};
