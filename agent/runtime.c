/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel runtime's zygote: starting it, waiting until it is warm, forking kernels. */
/*
 * Theory of operation
 *
 * Imports take seconds in software emulation, so one process does them once (in the template's
 * snapshot) and every kernel is a fork of it. The channel is a stream socket with frames of a
 * 32-bit little-endian length, a type and JSON:
 *
 *	zygote → agent   'r' {"python","ipython","pid"}   warm
 *	                 'x' {"id","error","unsupported"} that fork failed
 *	agent → zygote   'f' {"id","language","cwd","cgroup"?,"env"}
 *	                                                  with control, stdout, stderr as SCM_RIGHTS
 *
 * A zygote that dies or talks nonsense is killed, those who wait get an error, and the next that
 * needs one starts a new one, cold. Kernels that live are not affected.
 */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent.h"
#include "base/macros.h"
#include "base/parse.h"
#include "env.h"
#include "file_io.h"
#include "kernel_frame.h"
#include "proc.h"

enum {
	WARM_MS = 600 *
		1000, /* imports from a cold disk and a browser's start, in software emulation */
	IN_BYTES = 64 * 1024,
	SEND_BYTES = 1024 * 1024, /* a fork request (LIMIT_OPEN_BYTES, escaped) fits in whole */
};

/* The kernel should rather kill a kernel than what all kernels come from. */
static const char zygote_oom_adj[] = "-500";

static void answer_waiters(struct runtime *rt, const struct err *err)
{
	struct list waiters;

	/* A waiter may want again from its callback: it then belongs to the next round. */
	list_init(&waiters);
	while (!list_empty(&rt->waiters)) {
		struct list *it = rt->waiters.next;

		list_remove(it);
		list_append(&waiters, it);
	}
	while (!list_empty(&waiters)) {
		struct runtime_waiter *w = container_of(waiters.next, struct runtime_waiter, node);

		list_remove(&w->node);
		w->on_ready(w, err);
	}
}

static void stop(struct runtime *rt)
{
	source_detach(&rt->source);
	cleanup_close(&rt->fd);
	rt->fd = -1;
	timer_stop(&rt->deadline);
	child_forget(&rt->child);
	if (rt->cgroup) {
		cgroup_kill(rt->cgroup);
		rt->cgroup = cgroup_release(rt->cgroup);
	}
	buf_clear(&rt->in);
	json_decref(rt->info);
	rt->info = NULL;
}

static void fail(struct runtime *rt, const char *why)
{
	struct err err;

	stop(rt);
	(void)err_set(&err, ERR_INTERNAL, -EIO, "the kernel runtime %s", why);
	answer_waiters(rt, &err);
}

static void on_zygote_exit(struct child *child, int status)
{
	struct runtime *rt = container_of(child, struct runtime, child);

	(void)status;
	fail(rt, "ended");
}

static void on_deadline(struct timer *timer)
{
	fail(container_of(timer, struct runtime, deadline), "did not become ready in time");
}

/* The session hears of it when its control socket closes, and asks for the reason then. */
static void on_fork_failed(struct runtime *rt, const json_t *answer)
{
	const char *id = json_string_value(json_object_get(answer, "id"));
	const char *words = json_string_value(json_object_get(answer, "error"));
	bool unsupported = json_is_true(json_object_get(answer, "unsupported"));
	struct list *it, *tmp;
	uint64_t n;

	if (!id || parse_u64(id, 1, UINT32_MAX, &n) < 0)
		return;
	list_for_each(it, tmp, &rt->forks) {
		struct runtime_waiter *w = container_of(it, struct runtime_waiter, node);

		if (w->fork_id == n)
			(void)err_set(&w->err, unsupported ? ERR_UNSUPPORTED : ERR_INTERNAL,
				unsupported ? -EOPNOTSUPP : -EIO, "%s",
				words ? words : "the kernel runtime gave no reason");
	}
}

/* Takes one frame off the input; false when it is not complete. */
static bool handle_frame(struct runtime *rt)
{
	struct kernel_frame f;
	size_t used;
	json_t *json;

	if (kernel_frame_decode((const uint8_t *)rt->in.data, rt->in.len, &f, &used) == 0)
		return false;
	json = json_loadb((const char *)f.payload, f.length, 0, NULL);
	buf_consume(&rt->in, used);
	if (f.type == KERNEL_READY && json_is_object(json) && !rt->info) {
		timer_stop(&rt->deadline);
		rt->info = json_incref(json);
		answer_waiters(rt, NULL);
	}
	if (f.type == KERNEL_FORK_FAILED)
		on_fork_failed(rt, json);
	json_decref(json);
	return true;
}

static void on_channel(struct source *src, uint32_t revents)
{
	struct runtime *rt = container_of(src, struct runtime, source);
	ssize_t n;

	(void)revents;
	if (buf_reserve(&rt->in, 4096) < 0) {
		fail(rt, "sent a message that is too long");
		return;
	}
	n = read(rt->fd, rt->in.data + rt->in.len, 4096);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		fail(rt, "ended");
		return;
	}
	rt->in.len += (size_t)n;
	while (rt->fd >= 0 && rt->in.len && handle_frame(rt))
		;
}

static int start(struct runtime *rt, struct err *err)
{
	const struct agent_config *config = &rt->agent->config;
	const char *const argv[] = {config->python, "-P", "-m", "pandastack_kernel.zygote", "--fd",
		"3", NULL};
	_cleanup_free_ char *environment = agent_path(rt->agent, "/etc/environment");
	_cleanup_env_ struct env env = {0};
	_cleanup_close_ int theirs = -1, null = -1;
	const int size = SEND_BYTES;
	char path[48];
	int fds[2], r;
	pid_t pid;

	if (access(config->python, X_OK) < 0)
		return err_set(err, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"this template has no kernels (no %s); code-interpreter has them",
			config->python);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set_errno(err, -errno, "kernel runtime");
	rt->fd = fds[0];
	theirs = fds[1];
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || fcntl(rt->fd, F_SETFL, O_NONBLOCK) < 0 ||
		setsockopt(rt->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		return err_set_errno(err, -errno, "kernel runtime");
	env_build(&env, environment, "/root", "root", rt->agent->env, NULL);
	env_set(&env, "PYTHONPATH", config->runtime);
	rt->cgroup = cgroup_new(&rt->agent->cgroups, "zygote");
	r = proc_spawn(
		&(struct proc_spec){
			.argv = argv,
			.envp = env.vars,
			.fds = {null, STDERR_FILENO, STDERR_FILENO, theirs},
			.cwd_fd = -1,
			.cgroup_fd = rt->cgroup->dir_fd,
		},
		&pid);
	if (r < 0)
		return err_set_errno(err, r, "starting the kernel runtime");
	rt->cgroup->leader = pid;
	(void)child_watch(&rt->child, &rt->agent->reaper, pid, on_zygote_exit); /* our child */
	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	(void)file_write_small(AT_FDCWD, path, zygote_oom_adj); /* it only helps */
	timer_start(&rt->deadline, &rt->agent->loop, WARM_MS);
	r = source_attach(&rt->source, &rt->agent->loop, rt->fd, EPOLLIN, on_channel);
	return r < 0 ? err_set_errno(err, r, "kernel runtime") : 0;
}

void runtime_init(struct runtime *rt, struct agent *agent)
{
	*rt = (struct runtime){.agent = agent, .fd = -1, .in = buf_init(IN_BYTES), .next_id = 1};
	list_init(&rt->waiters);
	list_init(&rt->forks);
	timer_init(&rt->deadline, on_deadline);
}

void runtime_done(struct runtime *rt)
{
	stop(rt);
	buf_done(&rt->in);
}

void runtime_want(struct runtime *rt, struct runtime_waiter *w)
{
	struct err err;

	if (rt->info) {
		w->on_ready(w, NULL);
		return;
	}
	if (rt->fd < 0 && start(rt, &err) < 0) {
		stop(rt);
		w->on_ready(w, &err);
		return;
	}
	list_append(&rt->waiters, &w->node);
}

/* Sends a frame and three descriptors with its first byte. */
static int send_with_fds(int fd, const struct buf *frame, const int fds[3])
{
	union {
		char bytes[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = frame->data, .iov_len = frame->len};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(3 * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, 3 * sizeof(int));
	n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return (size_t)n == frame->len ? 0 : -EAGAIN;
}

int runtime_fork(struct runtime *rt, struct runtime_waiter *w, const struct runtime_spec *spec,
	const int fds[3], struct err *err)
{
	_cleanup_buf_ struct buf frame = buf_init(SEND_BYTES);
	json_t *request = json_pack("{ss ss ss* sO}", "language", spec->language, "cwd", spec->cwd,
		"cgroup", spec->cgroup, "env", spec->env);
	int r;

	w->fork_id = rt->next_id++;
	w->err = (struct err){0};
	(void)json_object_set_new(request, "id", json_sprintf("%u", w->fork_id));
	r = kernel_frame_append_json(&frame, KERNEL_FORK, request);
	json_decref(request);
	if (r == 0)
		r = send_with_fds(rt->fd, &frame, fds);
	if (r == 0) {
		list_append(&rt->forks, &w->node);
		return 0;
	}
	/* Half a frame in the channel, or one that is stuck: it is of no more use. */
	fail(rt, "does not take requests");
	return err_set(err, ERR_INTERNAL, -EIO, "the kernel runtime does not take requests");
}

bool runtime_fork_failed(struct runtime *rt, struct runtime_waiter *w)
{
	/* Its words were sent before the socket was closed, but may be read after. */
	if (!w->err.os && rt->fd >= 0)
		on_channel(&rt->source, EPOLLIN);
	return w->err.os != 0;
}
