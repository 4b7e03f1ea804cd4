/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C during a build: ends the program that the build waits for, so that the build fails at that
 * step and cleans up as after any failure. A second one ends the build itself at once, whatever it waits for.
 *
 * One build runs in a process; the state of this module is that process's, as its signals are.
 */
#pragma once

#include <stdbool.h>

/* Takes SIGINT, SIGTERM and SIGHUP over, before threads exist. Returns 0 or a negative errno. */
int cancel_init(void);

/* The build now waits for that process (-1: for none); a signal that came before ends it at once. */
void cancel_track(int pidfd);

bool cancel_requested(void);
