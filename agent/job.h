/* SPDX-License-Identifier: Apache-2.0 */
/* Work that may take long, in a child process: the loop goes on meanwhile. */
#pragma once

#include "agent.h"

/*
 * Runs work(arg, err) in a forked child, and closes the stream with {} or the error that it
 * reported. `arg` is borrowed until this returns (the child has a copy of everything). A cancel
 * kills the child and leaves its work half done.
 */
void job_start(struct agent *agent, struct stream *s, int (*work)(const void *arg, struct err *err),
	const void *arg);

void job_kill_all(struct agent *agent);
