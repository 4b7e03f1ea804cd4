/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left to a helper that its guest has taken over: its sockets, and no more.
 *
 * Theory of operation
 * -------------------
 * In this order, each step relying on the ones before:
 *
 *	1. where it was started by root: the ids of nobody, no supplementary groups
 *	2. namespaces of its own where the host allows them: user, mount, PID, IPC, UTS. Not the network: that is its work.
 *	   As the first process of a PID namespace it sees no other; an ancestor remains only long enough to be waited for.
 *	3. an empty, read-only root directory
 *	4. limits: descriptors, memory; no files, no processes, no core dumps
 *	5. no capabilities, no new privileges, not dumpable
 *	6. a list of system calls (seccomp), with arguments where they matter: no raw or packet sockets, no executable
 *	   memory. Any other call ends the process.
 *
 * A host that allows no user namespaces (step 2) leaves the file system to the ordinary permissions of the user: seccomp has no
 * call on the list that opens a file, so there is none to be reached.
 */
#pragma once

#include "base/err.h"

/* Returns in the process that goes on. What is to be opened has been. */
int isolate(struct err *err);
