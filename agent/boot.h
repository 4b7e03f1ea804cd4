/* SPDX-License-Identifier: Apache-2.0 */
/* From the kernel's first process to a machine that is ready to serve. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Mounts, loads modules, switches to the root made of the base and scratch disks, brings up the
 * loopback, divides the machine (cgroup.h), and opens the host's port. Returns the port's
 * descriptor, which does not block, or a negative errno. *ret_listens: it is a socket on which the host connects
 * (vsock.h).
 */
int boot(bool *ret_listens, struct err *err);

/* Where boot() made the control groups for all but the agent. */
extern const char boot_cgroup_path[];

/* The end of a machine that cannot go on: says why on the console and powers off. */
_Noreturn void boot_give_up(const struct err *err);
