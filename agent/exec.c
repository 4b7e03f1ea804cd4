/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: start, stdin, output with back-pressure, timeout, result. */
/*
 * Theory of operation
 *
 * A command is one child in a session and a control group of its own, with pipes for its output.
 *
 *	running ──exit──▶ draining ──▶ answered
 *
 * - running: a pipe is read only while its stream has room, so a slow reader stops the command and
 *   nothing else. A timeout, a cancel by the host and the end of the generation kill the group; all
 *   three then wait for the exit like any other end.
 * - draining: the child is reaped. What was in the pipes at its exit (`owed`) is delivered
 *   however long the host takes. Background children may hold the pipes open for ever, so beyond
 *   that only DRAIN_MS are waited for more.
 * - answered: a pipe that is still held is left to a small process in the command's group that
 *   reads it to its end: a service started with `&` must not die of SIGPIPE when it logs.
 *   The result says `background`.
 */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "env.h"
#include "proc.h"

enum {
	DRAIN_MS = 100,
	EXIT_TIMED_OUT = 124, /* as timeout(1) has it */
};

struct output {
	struct source source;
	struct command *command;
	int fd; /* owned; -1 at its end */
	uint8_t channel;
	int owed; /* bytes that were in the pipe when the child exited, not yet delivered */
};

struct input {
	struct source source;
	int fd; /* owned; -1: closed, or there never was one */
	struct buf data;
	bool ended; /* the host sent END */
};

struct command {
	struct list node;
	struct agent *agent;
	struct stream *stream; /* NULL once the link dropped it */
	struct child child;
	struct cgroup *cgroup;
	struct output out[2];
	struct input in;
	struct timer timeout;
	struct timer drain;
	int64_t started_ms;
	int64_t duration_ms;
	int status; /* of waitpid(), once `exited` */
	bool exited;
	bool drained; /* DRAIN_MS are over */
	bool timed_out;
	bool killed;  /* by us: nothing of it lives on */
	bool discard; /* nobody wants the output any more */
};

static void stdin_close(struct command *c)
{
	source_detach(&c->in.source);
	cleanup_close(&c->in.fd);
	c->in.fd = -1;
}

static void output_close(struct output *out)
{
	source_detach(&out->source);
	cleanup_close(&out->fd);
	out->fd = -1;
	out->owed = 0;
}

static void command_free(struct command *c)
{
	list_remove(&c->node);
	child_forget(&c->child);
	stdin_close(c);
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
		output_close(&c->out[i]);
	buf_done(&c->in.data);
	timer_stop(&c->timeout);
	timer_stop(&c->drain);
	c->cgroup = cgroup_release(c->cgroup);
	free(c);
}
DEFINE_CLEANUP(struct command *, command_free)

/* --- the end ------------------------------------------------------------------------------- */

static json_t *result(const struct command *c, bool background)
{
	json_t *ok = json_pack("{sI}", "duration_ms", (json_int_t)c->duration_ms);
	int code = WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);

	(void)json_object_set_new(ok, "exit_code",
		json_integer(c->timed_out ? EXIT_TIMED_OUT : code));
	if (WIFSIGNALED(c->status))
		(void)json_object_set_new(ok, "signal", json_integer(WTERMSIG(c->status)));
	if (c->timed_out)
		(void)json_object_set_new(ok, "timed_out", json_true());
	if (background)
		(void)json_object_set_new(ok, "background", json_true());
	return ok;
}

/* Runs in a process of its own: reads and forgets until all writers are gone. */
static _Noreturn void read_to_end(const int *held)
{
	static char sink[64 * 1024];
	struct pollfd fds[2];

	for (int i = 0; i < 2; i++)
		fds[i] = (struct pollfd){.fd = held[i] < 0 ? -1 : i, .events = POLLIN};
	while ((fds[0].fd >= 0 || fds[1].fd >= 0) && poll(fds, 2, -1) > 0) {
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents && read(i, sink, sizeof(sink)) == 0)
				fds[i].fd = -1;
		}
	}
	_exit(0);
}

/* See `answered` above. A failure (no process to be had) leaves the pipe closed. */
static void leave_pipes_to_reader(struct command *c)
{
	const int fds[] = {c->out[0].fd, c->out[1].fd};

	if (proc_fork(c->cgroup->dir_fd, fds, ARRAY_SIZE(fds)) == 0)
		read_to_end(fds);
}

static bool output_done(const struct command *c, const struct output *out)
{
	return out->fd < 0 || c->discard || (c->drained && out->owed <= 0);
}

static void finish_if_done(struct command *c)
{
	bool background;

	if (!c->exited || !output_done(c, &c->out[0]) || !output_done(c, &c->out[1]))
		return;
	background = !c->killed && (c->out[0].fd >= 0 || c->out[1].fd >= 0);
	if (background)
		leave_pipes_to_reader(c);
	if (c->stream)
		stream_close(c->stream, result(c, background));
	command_free(c);
}

static void on_drain_over(struct timer *timer)
{
	struct command *c = container_of(timer, struct command, drain);

	c->drained = true;
	finish_if_done(c);
}

static void on_exit_reaped(struct child *child, int status)
{
	struct command *c = container_of(child, struct command, child);

	c->exited = true;
	c->status = status;
	c->duration_ms = clock_mono_ms() - c->started_ms;
	timer_stop(&c->timeout);
	stdin_close(c);
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++) {
		if (c->out[i].fd >= 0 && ioctl(c->out[i].fd, FIONREAD, &c->out[i].owed) < 0)
			c->out[i].owed = 0;
	}
	timer_start(&c->drain, &c->agent->loop, DRAIN_MS);
	finish_if_done(c);
}

static void kill_command(struct command *c)
{
	if (c->exited)
		return;
	c->killed = true;
	cgroup_kill(c->cgroup);
}

static void on_timeout(struct timer *timer)
{
	struct command *c = container_of(timer, struct command, timeout);

	c->timed_out = true;
	kill_command(c);
}

/* --- output -------------------------------------------------------------------------------- */

static void on_output(struct source *src, uint32_t revents)
{
	struct output *out = container_of(src, struct output, source);
	struct command *c = out->command;
	size_t room = stream_room(c->stream);
	ssize_t n;

	(void)revents;
	if (room == 0) {
		source_set(&out->source, 0);
		stream_want_room(c->stream);
		return;
	}
	n = stream_send_from(c->stream, out->channel, out->fd, -1, room);
	if (n == -EAGAIN)
		return;
	if (n <= 0)
		output_close(out);
	else if (c->exited)
		out->owed -= (int)n;
	finish_if_done(c);
}

static void on_room(struct stream *s)
{
	struct command *c = s->owner;

	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
		source_set(&c->out[i].source, EPOLLIN);
}

/* --- stdin --------------------------------------------------------------------------------- */

static void feed_stdin(struct command *c)
{
	ssize_t n = 0;

	if (c->in.data.len && c->in.fd >= 0)
		n = write(c->in.fd, c->in.data.data, c->in.data.len);
	if (n < 0 && errno != EAGAIN)
		stdin_close(c); /* EPIPE: nobody reads it */
	if (c->in.fd < 0)
		n = (ssize_t)c->in.data.len; /* to nowhere */
	if (n > 0) {
		buf_consume(&c->in.data, (size_t)n);
		if (c->stream)
			stream_consumed(c->stream, (size_t)n);
	}
	if (c->in.data.len == 0 && c->in.ended)
		stdin_close(c);
	source_set(&c->in.source, c->in.data.len ? EPOLLOUT : 0);
}

static void on_stdin_writable(struct source *src, uint32_t revents)
{
	(void)revents;
	feed_stdin(container_of(src, struct command, in.source));
}

static void on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct command *c = s->owner;

	if (buf_append(&c->in.data, data, len) < 0)
		abort(); /* out of memory: the window bounds it */
	feed_stdin(c);
}

static void on_end(struct stream *s)
{
	struct command *c = s->owner;

	c->in.ended = true;
	feed_stdin(c);
}

/* --- the host's other wishes ----------------------------------------------------------------- */

static void on_event(struct stream *s, const json_t *event)
{
	const struct command *c = s->owner;
	json_int_t sig = json_integer_value(json_object_get(event, "signal"));

	if (!c->exited && sig > 0 && sig < NSIG)
		(void)kill(-c->child.pid, (int)sig); /* its group; it may have left it */
}

static void discard_output(struct command *c)
{
	c->discard = true;
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
		output_close(&c->out[i]);
}

static void on_cancel(struct stream *s)
{
	struct command *c = s->owner;

	kill_command(c);
	discard_output(c);
	finish_if_done(c);
}

static void on_gone(struct stream *s)
{
	struct command *c = s->owner;

	c->stream = NULL;
	kill_command(c);
	discard_output(c);
	finish_if_done(c);
}

static const struct stream_ops ops = {
	.on_data = on_data,
	.on_end = on_end,
	.on_event = on_event,
	.on_cancel = on_cancel,
	.on_room = on_room,
	.on_gone = on_gone,
};

/* --- the beginning ------------------------------------------------------------------------- */

static struct command *command_new(struct agent *agent)
{
	struct command *c = xnew(struct command);

	c->agent = agent;
	c->in.fd = -1;
	c->in.data = buf_init(LIMIT_STREAM_WINDOW);
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++) {
		c->out[i].fd = -1;
		c->out[i].command = c;
		c->out[i].channel = i == 0 ? LINK_CH_STDOUT : LINK_CH_STDERR;
	}
	timer_init(&c->timeout, on_timeout);
	timer_init(&c->drain, on_drain_over);
	list_append(&agent->commands, &c->node);
	return c;
}

/* The arguments of either form; borrowed from the request, the array to be freed. */
static const char **request_argv(const json_t *request, struct err *err)
{
	const char *cmd = request_text(request, "cmd");
	const json_t *list = json_object_get(request, "argv");
	size_t n = json_array_size(list);
	const char **argv;

	if (!cmd && n == 0) {
		(void)err_set(err, ERR_INVALID, -EINVAL, "\"cmd\" or \"argv\" is needed");
		return NULL;
	}
	argv = xcalloc(MAX(n, (size_t)3) + 1, sizeof(*argv));
	if (cmd) {
		argv[0] = "/bin/sh";
		argv[1] = "-c";
		argv[2] = cmd;
		return argv;
	}
	for (size_t i = 0; i < n; i++) {
		argv[i] = json_string_value(json_array_get(list, i));
		if (!argv[i]) {
			free(argv);
			(void)err_set(err, ERR_INVALID, -EINVAL, "\"argv\" must hold text");
			return NULL;
		}
	}
	return argv;
}

/* The directory asked for, or the first of the usual ones that can be entered. */
static int open_cwd(const char *cwd, const char *home, struct err *err)
{
	static const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int fd;

	if (cwd) {
		fd = open(cwd, flags);
		return fd < 0 ? err_set_errno(err, -errno, "working directory %s", cwd) : fd;
	}
	fd = open(WORKSPACE, flags);
	if (fd < 0 && access(home, X_OK) == 0)
		fd = open(home, flags);
	if (fd < 0)
		fd = open("/", flags);
	return fd < 0 ? err_set_errno(err, -errno, "working directory /") : fd;
}

/* A pipe whose end on our side does not block. */
static int open_pipe(int *ret_ours, int *ret_theirs, bool we_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_ours = fds[we_read ? 0 : 1];
	*ret_theirs = fds[we_read ? 1 : 0];
	(void)fcntl(*ret_ours, F_SETFL, O_NONBLOCK); /* cannot fail on a pipe */
	return 0;
}

/* What a request asks for, checked. */
struct exec_request {
	const char **argv; /* owned array of borrowed text */
	struct env env;
	struct proc_user user;
	bool as_user;
	bool with_stdin;
	int cwd_fd; /* owned */
	int64_t timeout_ms;
};

static void request_done(struct exec_request *req)
{
	free(req->argv);
	env_done(&req->env);
	cleanup_close(&req->cwd_fd);
}

static int parse_request(struct agent *agent, const json_t *request, struct exec_request *req,
	struct err *err)
{
	json_t *env = json_object_get(request, "env");
	const char *user = request_text(request, "user");
	const char *wrong = env_check_json(env);
	_cleanup_free_ char *environment = NULL;
	int r;

	if (wrong)
		return err_set(err, ERR_INVALID, -EINVAL, "%s", wrong);
	req->argv = request_argv(request, err);
	if (!req->argv)
		return err->os;
	req->as_user = user && strcmp(user, "root") != 0;
	if (req->as_user) {
		r = proc_user_find(user, &req->user, err);
		if (r < 0)
			return r;
	} else {
		req->user = (struct proc_user){.name = "root", .home = "/root"};
	}
	r = open_cwd(request_text(request, "cwd"), req->user.home, err);
	if (r < 0)
		return r;
	req->cwd_fd = r;
	environment = agent_path(agent, "/etc/environment");
	env_build(&req->env, environment, req->user.home, req->user.name, agent->env, env);
	req->with_stdin = json_is_true(json_object_get(request, "stdin"));
	req->timeout_ms = json_integer_value(json_object_get(request, "timeout_ms"));
	return 0;
}

static int start(struct command *c, const struct exec_request *req, struct err *err)
{
	_cleanup_close_ int in = -1, out = -1, errout = -1;
	pid_t pid;
	int r;

	if (req->with_stdin)
		r = open_pipe(&c->in.fd, &in, false);
	else
		r = (in = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 ? -errno : 0;
	if (r == 0)
		r = open_pipe(&c->out[0].fd, &out, true);
	if (r == 0)
		r = open_pipe(&c->out[1].fd, &errout, true);
	if (r < 0)
		return err_set_errno(err, r, "opening pipes");
	c->cgroup = cgroup_new(&c->agent->cgroups, "cmd");
	r = proc_spawn(
		&(struct proc_spec){
			.argv = req->argv,
			.envp = req->env.vars,
			.fds = {in, out, errout, -1},
			.cwd_fd = req->cwd_fd,
			.cgroup_fd = c->cgroup->dir_fd,
			.user = req->as_user ? &req->user : NULL,
		},
		&pid);
	if (r < 0)
		return err_set_errno(err, r, "starting a process");
	c->cgroup->leader = pid;
	r = child_watch(&c->child, &c->agent->reaper, pid, on_exit_reaped);
	assert(r == 0); /* it was started a moment ago and only the reaper reaps */
	return 0;
}

static int watch_pipes(struct command *c)
{
	struct loop *loop = &c->agent->loop;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->out) && r == 0; i++)
		r = source_attach(&c->out[i].source, loop, c->out[i].fd, EPOLLIN, on_output);
	if (c->in.fd >= 0 && r == 0)
		r = source_attach(&c->in.source, loop, c->in.fd, 0, on_stdin_writable);
	return r;
}

void exec_open(struct agent *agent, struct stream *s, const json_t *request)
{
	CLEANUP(request_done) struct exec_request req = {.cwd_fd = -1};
	CLEANUP(command_freep) struct command *c = command_new(agent);
	struct err err;
	int r;

	r = parse_request(agent, request, &req, &err);
	if (r == 0)
		r = start(c, &req, &err);
	if (r < 0) {
		stream_fail(s, &err);
		return;
	}
	if (watch_pipes(c) < 0)
		abort(); /* out of memory */
	c->stream = s;
	c->started_ms = clock_mono_ms();
	if (req.timeout_ms > 0)
		timer_start(&c->timeout, &agent->loop, req.timeout_ms);
	s->ops = &ops;
	s->owner = steal_ptr(&c);
}

void exec_kill_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->commands) {
		struct command *c = container_of(it, struct command, node);

		c->stream = NULL;
		kill_command(c);
		command_free(c);
	}
}
