/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child exits: one SIGCHLD descriptor, a callback for each child that somebody watches, and no
 * zombies among the orphans that PID 1 (or a subreaper) inherits.
 *
 * reaper_init() blocks SIGCHLD for the whole process. A PID cannot be reused under a watch: it is
 * free only after this module has reaped it, and that ends the watch.
 */
#pragma once

#include <sys/types.h>

#include "loop.h"

struct child {
	struct list node;
	pid_t pid; /* 0 while nothing is watched: a zeroed child is a valid one */
	/* `status` as from waitpid(). The watch is over; `child` may be freed. */
	void (*on_exit)(struct child *child, int status);
};

struct reaper {
	struct source source;
	int signal_fd;
	struct list children;
	void (*on_orphan)(struct reaper *reaper); /* something unwatched was reaped; may be NULL */
};

int reaper_init(struct reaper *reaper, struct loop *loop, void (*on_orphan)(struct reaper *reaper));
void reaper_done(struct reaper *reaper);

/*
 * Watches a process. -ECHILD when it is no unreaped child of ours, -EBUSY when it is watched
 * already: a PID that somebody reports is checked by this.
 */
int child_watch(struct child *child, struct reaper *reaper, pid_t pid,
	void (*on_exit)(struct child *child, int status));

/* Ends the watch; the process is reaped as an orphan. Harmless when nothing is watched. */
void child_forget(struct child *child);
