/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifecycle of a sandbox as a pure table: which state may follow which.
 *
 * SANDBOX_CREATING  The machine is being restored, or taken over at the daemon's start. Only the creating
 *                   thread acts on it; streams are refused. Leaves to RUNNING when the agent has answered
 *                   and the registry has a row, to STOPPING when the create failed (so it never existed),
 *                   to FAILED when an earlier daemon registered it as such.
 * SANDBOX_RUNNING   The machine runs and the link is up. Leaves to STOPPING on delete or expiry, to
 *                   FAILED when the process ends by itself or the link breaks.
 * SANDBOX_FAILED    The machine is gone, the reason is kept, and the sandbox still answers GET until
 *                   it is deleted or expires. Nothing else can be done with it.
 * SANDBOX_STOPPING  Somebody deletes it: streams are refused, the process is killed, the folder
 *                   removed. Leaves to DELETED only.
 * SANDBOX_DELETED   Nothing of it is left but references of threads that still hold it.
 */
#pragma once

#include <stdbool.h>

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_FAILED,
	SANDBOX_STOPPING,
	SANDBOX_DELETED,
	_SANDBOX_STATE_MAX,
};

/* The word on the wire: "creating", "running", … */
const char *sandbox_state_name(enum sandbox_state s);
/* 0 or -EINVAL. */
int sandbox_state_from_name(const char *name, enum sandbox_state *ret);

bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to);
