/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of package managers that come from the host, at the weakest place that each of them reads: whatever else is set in the
 * machine counts before them.
 *
 * They are files in memory, to which the boot makes links: so a change costs no disk, and each run of a package manager, also one of
 * a kernel that has lived for long, finds what fits the host that the machine is on now.
 */
#pragma once

#include "agent.h"

/* At the boot: all are empty. */
void packages_init(void);

/* {"pip": TEXT, …}; those that are not in it, or all for NULL, become empty. Does nothing where they are so already. */
void packages_set(struct agent *agent, const json_t *settings);
