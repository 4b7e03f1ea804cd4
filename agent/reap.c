/* SPDX-License-Identifier: Apache-2.0 */
/* Child exits: reaps everything, and tells those who watch. */
/*
 * Theory of operation
 *
 * As PID 1 the agent is the parent of every process whose own parent died, so it must wait for
 * processes that it has never heard of. One loop over waitpid(-1) does both jobs: it frees the
 * orphans and finds the watched ones by PID. Signals of the same kind merge, so one SIGCHLD
 * stands for any number of exits and the loop goes on until nothing is left.
 *
 * Nothing else in the agent may wait for a child: the status would be lost to its watcher.
 */
#include "reap.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/macros.h"

static struct child *find(struct reaper *reaper, pid_t pid)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &reaper->children) {
		struct child *child = container_of(it, struct child, node);

		if (child->pid == pid)
			return child;
	}
	return NULL;
}

static void on_sigchld(struct source *src, uint32_t revents)
{
	struct reaper *reaper = container_of(src, struct reaper, source);
	struct signalfd_siginfo info;
	bool orphans = false;
	int status;
	pid_t pid;

	(void)revents;
	(void)!read(reaper->signal_fd, &info,
		sizeof(info)); /* only to clear it: exits are counted below */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct child *child = find(reaper, pid);

		if (!child) {
			orphans = true;
			continue;
		}
		child_forget(child);
		child->on_exit(child, status);
	}
	if (orphans && reaper->on_orphan)
		reaper->on_orphan(reaper);
}

int reaper_init(struct reaper *reaper, struct loop *loop, void (*on_orphan)(struct reaper *reaper))
{
	sigset_t set;

	*reaper = (struct reaper){.on_orphan = on_orphan};
	list_init(&reaper->children);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	reaper->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (reaper->signal_fd < 0)
		return -errno;
	return source_attach(&reaper->source, loop, reaper->signal_fd, EPOLLIN, on_sigchld);
}

void reaper_done(struct reaper *reaper)
{
	source_detach(&reaper->source);
	cleanup_close(&reaper->signal_fd);
}

int child_watch(struct child *child, struct reaper *reaper, pid_t pid,
	void (*on_exit)(struct child *child, int status))
{
	siginfo_t info;

	if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -ECHILD;
	if (find(reaper, pid))
		return -EBUSY;
	*child = (struct child){.pid = pid, .on_exit = on_exit};
	list_append(&reaper->children, &child->node);
	return 0;
}

void child_forget(struct child *child)
{
	if (!child->pid)
		return;
	child->pid = 0;
	list_remove(&child->node);
}
