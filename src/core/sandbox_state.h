/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifecycle of a sandbox as a pure table: which state may follow which.
 *
 * SANDBOX_CREATING  The machine is being restored, or taken over at the daemon's start. Only the creating
 *                   thread acts on it; streams are refused. Leaves to RUNNING when the agent has answered
 *                   and the registry has a row, to STOPPING when the create failed (so it never existed),
 *                   to what an earlier daemon registered: FAILED, PAUSED or HIBERNATED.
 * SANDBOX_RUNNING   The machine runs and the link is up. Leaves to STOPPING on delete or expiry, to
 *                   FAILED when the process ends by itself or the link breaks, to PAUSED and HIBERNATING on
 *                   request; a persistent one that is idle is hibernated too.
 * SANDBOX_PAUSED    The process is there, its vCPUs stand still; streams are refused. Leaves as RUNNING does, and
 *                   back to it.
 * SANDBOX_HIBERNATING  Memory and disk are being written away. Streams wait. Leaves to HIBERNATED, back to where
 *                   it came from when that failed, to FAILED.
 * SANDBOX_HIBERNATED  There is no machine, only its state on the disk. A stream wakes it. Leaves to WAKING, STOPPING.
 * SANDBOX_WAKING    The machine is being restored. Streams wait. Leaves to RUNNING, or back when that failed.
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
	SANDBOX_PAUSED,
	SANDBOX_HIBERNATING,
	SANDBOX_HIBERNATED,
	SANDBOX_WAKING,
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

/* Whether a machine is there, which runs or stands still, and nobody is about to change that. */
bool sandbox_has_machine(enum sandbox_state s);
