/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a folder, told as they happen. */
/*
 * A process of its own watches (watch_tree.c), for it may read a big tree; it hands each message over a socket. A message is taken
 * from there when the stream has room for one, so a host that does not read holds up that process and nothing else, and the
 * kernel's queue for it says when it has overflown.
 */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "proc.h"
#include "watch_tree.h"

struct watch {
	struct stream *stream;
	struct cgroup *cgroup;
	struct source source;
	int fd; /* owned; messages: text of JSON, and at last a struct err */
};

static void watch_free(struct watch *w)
{
	source_detach(&w->source);
	cleanup_close(&w->fd);
	cgroup_kill(w->cgroup);
	w->cgroup = cgroup_release(w->cgroup);
	free(w);
}

/* ---- in the process of its own ---- */

static int send_message(const char *text, size_t len, void *user)
{
	(void)user;
	return send(0, text, len, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static _Noreturn void run(const char *path, bool recursive)
{
	struct err err = {0};

	(void)watch_tree(path, recursive, send_message, NULL, &err); /* `err` says it */
	(void)send(0, &err, sizeof(err), MSG_NOSIGNAL);              /* where the agent listens */
	_exit(0);
}

/* ---- in the agent ---- */

/* The last message, or none. */
static void on_last(struct watch *w, const void *data, ssize_t len)
{
	struct stream *s = w->stream;
	struct err err;

	watch_free(w);
	if (len != sizeof(err)) {
		stream_failf(s, -EIO, "the watch was killed");
		return;
	}
	memcpy(&err, data, sizeof(err));
	if (err.os == 0)
		stream_close(s, json_object());
	else
		stream_fail(s, &err);
}

static void on_message(struct source *src, uint32_t revents)
{
	static char data[LIMIT_FRAME_BYTES];
	struct watch *w = container_of(src, struct watch, source);
	ssize_t n;

	(void)revents;
	if (stream_room(w->stream) < sizeof(data)) {
		source_set(&w->source, 0);
		stream_want_bytes(w->stream, sizeof(data));
		return;
	}
	n = recv(w->fd, data, sizeof(data), 0);
	if (n > 0 && data[0] == '{')
		stream_send(w->stream, LINK_EVENT, 0, data, (size_t)n);
	else if (n >= 0 || errno != EAGAIN)
		on_last(w, data, n);
}

static void on_room(struct stream *s)
{
	struct watch *w = s->owner;

	source_set(&w->source, EPOLLIN);
}

static void on_gone(struct stream *s)
{
	watch_free(s->owner);
}

static const struct stream_ops ops = {
	.on_room = on_room,
	.on_gone = on_gone,
};

void watch_open(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	struct watch *w;
	int fds[2];
	pid_t pid;

	if (!path)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		stream_failf(s, -errno, "no descriptors left");
		return;
	}
	w = xnew(struct watch);
	w->fd = fds[0];
	w->cgroup = cgroup_new(&agent->cgroups, "watch");
	pid = proc_fork(w->cgroup->dir_fd, &fds[1], 1);
	if (pid == 0)
		run(path, json_is_true(json_object_get(request, "recursive")));
	(void)close(fds[1]);
	if (pid < 0) {
		watch_free(w);
		stream_failf(s, pid, "no process to be had");
		return;
	}
	w->cgroup->leader = pid;                 /* the reaper frees it, as it does orphans */
	(void)fcntl(w->fd, F_SETFL, O_NONBLOCK); /* cannot fail on a socket */
	if (source_attach(&w->source, &agent->loop, w->fd, EPOLLIN, on_message) < 0)
		abort(); /* out of memory */
	w->stream = s;
	s->owner = w;
	s->ops = &ops;
}
