/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points: where a test kills the program to see what the next start makes of it.
 *
 * With the build option `faults` the environment variable PANDASTACK_FAULT names the point at which the process gets
 * SIGKILL; in all other builds nothing of this is there.
 */
#pragma once

#ifdef PANDASTACK_FAULTS
void fault_point(const char *name);
#else
static inline void fault_point(const char *name)
{
	(void)name;
}
#endif
