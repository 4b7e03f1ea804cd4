/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points: where a test kills the program to see what the next start makes of it, or holds it to let something else
 * happen in the middle of a step.
 *
 * With the build option `faults` the environment variable PANDASTACK_FAULT names the point at which the process gets
 * SIGKILL. As POINT=FIFO it names one at which a thread waits until somebody has opened the FIFO for writing and closed it:
 * who opens it knows that the thread has come, and before it is made and after it is removed nobody is held. There may be
 * several, with commas between them. In all other builds nothing of this is there.
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
