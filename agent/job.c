/* SPDX-License-Identifier: Apache-2.0 */
/* Work that may take long, in a child process: the loop goes on meanwhile. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "proc.h"

struct job {
	struct list node;
	struct stream *stream; /* NULL once the link dropped it */
	struct child child;
	struct cgroup *cgroup;
	int report_fd; /* owned; the child writes its struct err here, nothing on success */
};

static void job_free(struct job *job)
{
	list_remove(&job->node);
	child_forget(&job->child);
	cleanup_close(&job->report_fd);
	job->cgroup = cgroup_release(job->cgroup);
	free(job);
}

static void on_exit_reaped(struct child *child, int status)
{
	struct job *job = container_of(child, struct job, child);
	struct err err;

	if (!job->stream)
		;
	else if (read(job->report_fd, &err, sizeof(err)) == sizeof(err))
		stream_fail(job->stream, &err);
	else if (status != 0)
		stream_failf(job->stream, -EIO, "the work was killed");
	else
		stream_close(job->stream, json_object());
	job_free(job);
}

static void on_cancel(struct stream *s)
{
	cgroup_kill(((struct job *)s->owner)->cgroup);
}

static void on_gone(struct stream *s)
{
	struct job *job = s->owner;

	job->stream = NULL;
	cgroup_kill(job->cgroup);
}

static const struct stream_ops ops = {
	.on_cancel = on_cancel,
	.on_gone = on_gone,
};

void job_start(struct agent *agent, struct stream *s, int (*work)(const void *arg, struct err *err),
	const void *arg)
{
	struct job *job;
	int pipe_fds[2];
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		stream_failf(s, -errno, "no descriptors left");
		return;
	}
	job = xnew(struct job);
	list_append(&agent->jobs, &job->node);
	job->report_fd = pipe_fds[0];
	job->cgroup = cgroup_new(&agent->cgroups, "job");
	pid = proc_fork(job->cgroup->dir_fd, &pipe_fds[1], 1);
	if (pid == 0) {
		struct err err;
		int r = work(arg, &err);

		if (r < 0)
			(void)!write(0, &err,
				sizeof(err)); /* a pipe takes that much in one piece */
		_exit(r < 0);
	}
	(void)close(pipe_fds[1]);
	if (pid < 0) {
		stream_failf(s, pid, "no process to be had");
		job_free(job);
		return;
	}
	job->cgroup->leader = pid;
	(void)child_watch(&job->child, &agent->reaper, pid, on_exit_reaped); /* it is our child */
	job->stream = s;
	s->ops = &ops;
	s->owner = job;
}

void job_kill_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->jobs) {
		struct job *job = container_of(it, struct job, node);

		cgroup_kill(job->cgroup);
		job_free(job);
	}
}
