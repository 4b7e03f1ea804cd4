/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack serve`. */
#pragma once

/* Runs the daemon until a signal ends it; returns the exit status. argv[0] is the command's name.
 */
int daemon_main(int argc, char **argv);
