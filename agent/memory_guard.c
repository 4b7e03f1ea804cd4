/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends what would hold a full machine in reclaim for ever.
 *
 * Theory of operation
 * -------------------
 * `memory.events` changes each time that the group is at its limit, which is no fault: a copied file fills it as well, with
 * pages that are free for the taking. So then a look is taken twice a second. It is bad when the limit was met many times
 * since the last one, the kernel has not called it out of memory, next to nothing of the group is pages of files, and these
 * come back as soon as they are gone (those of a file that is read or written once do not). After BAD_LOOKS in a row the
 * limit is lowered below what is there: no page can be found then, and the kernel's own killer strikes, chooses and counts
 * as it always does. The write spins until that has worked, so a child makes it that leaves the agent's share of the
 * processor to the process that shall end. When it has ended the limit is what it was.
 *
 * Once the limit is not met any more the watch is on `memory.events` again: an idle machine has no timer.
 */
#include "memory_guard.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "cgroup.h"
#include "file_io.h"

enum {
	LOOK_MS = 500,
	BAD_LOOKS = 3,
	HITS_MIN = 32, /* between two looks */
	REFAULTS_MIN = 256,
	FILES_PART = 32, /* of the limit: a working set of code and libraries has more */
	CUT_PART = 8,
	NICE_MAX = 19,
};

static struct memory_counts count(const struct memory_guard *guard)
{
	return (struct memory_counts){
		.hits = cgroup_value(guard->dir_fd, "memory.events", "max"),
		.ooms = cgroup_value(guard->dir_fd, "memory.events", "oom"),
		.refaults = cgroup_value(guard->dir_fd, "memory.stat", "workingset_refault_file"),
	};
}

/* From now on a change is an event. */
static void arm(struct memory_guard *guard)
{
	char text[256];

	if (pread(guard->events_fd, text, sizeof(text), 0) >=
		0) /* which tells the kernel that we know */
		source_set(&guard->source, EPOLLPRI);
}

/* In the child. Ends it. */
static _Noreturn void squeeze(const struct memory_guard *guard)
{
	char text[24];
	int fd;

	(void)file_write_small(guard->dir_fd, "../cgroup.procs", "0");
	(void)setpriority(PRIO_PROCESS, 0, NICE_MAX);
	/* Not file_write_small(): for O_NONBLOCK, kernels since 6.16 leave the killer out. */
	fd = openat(guard->dir_fd, "memory.max", O_WRONLY | O_CLOEXEC);
	(void)snprintf(text, sizeof(text), "%" PRIu64, guard->limit - guard->limit / CUT_PART);
	_exit(write(fd, text, strlen(text)) < 0);
}

static void on_squeezed(struct child *child, int status)
{
	struct memory_guard *guard = container_of(child, struct memory_guard, squeezer);

	(void)status;
	(void)file_write_number(guard->dir_fd, "memory.max",
		guard->limit); /* upwards, it does not wait */
}

static void call_killer(struct memory_guard *guard)
{
	pid_t pid;

	if (guard->squeezer.pid)
		return; /* it is at it */
	pid = fork();
	if (pid == 0)
		squeeze(guard);
	if (pid > 0 && child_watch(&guard->squeezer, guard->reaper, pid, on_squeezed) == 0)
		log_warn(
			"memory is exhausted, and the kernel does not see it: its killer is called");
}

static void on_timer(struct timer *timer)
{
	struct memory_guard *guard = container_of(timer, struct memory_guard, timer);
	struct memory_counts now = count(guard), before = guard->seen;
	uint64_t files = cgroup_value(guard->dir_fd, "memory.stat", "active_file") +
		cgroup_value(guard->dir_fd, "memory.stat", "inactive_file");
	bool full = now.hits - before.hits >= HITS_MIN && now.ooms == before.ooms;
	bool bad = full && files < guard->limit / FILES_PART &&
		now.refaults - before.refaults >= REFAULTS_MIN;

	guard->seen = now;
	guard->bad_looks = bad ? guard->bad_looks + 1 : 0;
	if (guard->bad_looks == BAD_LOOKS) {
		guard->bad_looks = 0;
		call_killer(guard);
	}
	if (full)
		timer_start(&guard->timer, guard->source.loop, LOOK_MS);
	else
		arm(guard);
}

static void on_event(struct source *src, uint32_t revents)
{
	struct memory_guard *guard = container_of(src, struct memory_guard, source);

	(void)revents;
	guard->seen = count(guard);
	guard->bad_looks = 0;
	source_set(src, 0);
	timer_start(&guard->timer, src->loop, LOOK_MS);
}

void memory_guard_init(struct memory_guard *guard, struct loop *loop, struct reaper *reaper,
	int dir_fd)
{
	*guard = (struct memory_guard){.dir_fd = dir_fd, .events_fd = -1, .reaper = reaper};
	timer_init(&guard->timer, on_timer);
	if (dir_fd < 0)
		return;
	guard->limit = cgroup_limit(dir_fd);
	guard->events_fd = openat(dir_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	if (!guard->limit || guard->events_fd < 0 ||
		source_attach(&guard->source, loop, guard->events_fd, 0, on_event) < 0)
		return;
	arm(guard);
}

void memory_guard_done(struct memory_guard *guard)
{
	child_forget(&guard->squeezer);
	timer_stop(&guard->timer);
	source_detach(&guard->source);
	cleanup_close(&guard->events_fd);
}
