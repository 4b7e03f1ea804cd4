/* SPDX-License-Identifier: Apache-2.0 */
/* The lifecycle of a sandbox as a pure table. */
#include "core/sandbox_state.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"

static const char *const names[] = {
	[SANDBOX_CREATING] = "creating",
	[SANDBOX_RUNNING] = "running",
	[SANDBOX_PAUSED] = "paused",
	[SANDBOX_HIBERNATING] = "hibernating",
	[SANDBOX_HIBERNATED] = "hibernated",
	[SANDBOX_WAKING] = "waking",
	[SANDBOX_FAILED] = "failed",
	[SANDBOX_STOPPING] = "stopping",
	[SANDBOX_DELETED] = "deleted",
};
static_assert(ARRAY_SIZE(names) == _SANDBOX_STATE_MAX, "every state has a name");

#define TO(s) (1u << SANDBOX_##s)

static const unsigned int followers[_SANDBOX_STATE_MAX] = {
	[SANDBOX_CREATING] = TO(RUNNING) | TO(PAUSED) | TO(HIBERNATED) | TO(FAILED) | TO(STOPPING),
	[SANDBOX_RUNNING] = TO(PAUSED) | TO(HIBERNATING) | TO(FAILED) | TO(STOPPING),
	[SANDBOX_PAUSED] = TO(RUNNING) | TO(HIBERNATING) | TO(FAILED) | TO(STOPPING),
	[SANDBOX_HIBERNATING] = TO(RUNNING) | TO(PAUSED) | TO(HIBERNATED) | TO(FAILED),
	[SANDBOX_HIBERNATED] = TO(WAKING) | TO(STOPPING),
	[SANDBOX_WAKING] = TO(RUNNING) | TO(HIBERNATED),
	[SANDBOX_FAILED] = TO(STOPPING),
	[SANDBOX_STOPPING] = TO(DELETED),
	[SANDBOX_DELETED] = 0,
};

const char *sandbox_state_name(enum sandbox_state s)
{
	assert(s < _SANDBOX_STATE_MAX);
	return names[s];
}

int sandbox_state_from_name(const char *name, enum sandbox_state *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = (enum sandbox_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool sandbox_has_machine(enum sandbox_state s)
{
	return s == SANDBOX_RUNNING || s == SANDBOX_PAUSED;
}

bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to)
{
	return followers[from] & (1u << to);
}
