/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: start, stdin, the end, timeout, result. */
/*
 * Theory of operation
 *
 *	running ──exit──▶ draining ──▶ over
 *
 * - running: a timeout and a kill by the owner end the group; both then wait for the exit like any other end.
 * - draining: the child is reaped. What was in the pipes at its exit (`owed`) is delivered
 *   however long its owner takes. Background children may hold the pipes open for ever, so beyond
 *   that only DRAIN_MS are waited for more. A terminal does not tell how much it holds (a part is under way in the kernel), but
 *   poll() tells whether it is any: what is there after DRAIN_MS is delivered.
 */
#include "command.h"

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
#include "terminal.h"

enum {
	DRAIN_MS = 100,
	EXIT_TIMED_OUT = 124, /* as timeout(1) has it */
};

static void stdin_close(struct command *c)
{
	source_detach(&c->in_source);
	cleanup_close(&c->in_fd);
	c->in_fd = -1;
}

static void output_close(struct command_output *out)
{
	source_detach(&out->source);
	cleanup_close(&out->fd);
	out->fd = -1;
	out->owed = 0;
}

void command_free(struct command *c)
{
	child_forget(&c->child);
	stdin_close(c);
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
		output_close(&c->out[i]);
	buf_done(&c->in);
	timer_stop(&c->timeout);
	timer_stop(&c->drain);
	c->cgroup = cgroup_release(c->cgroup);
}

/* --- the end ------------------------------------------------------------------------------- */

json_t *command_result(const struct command *c)
{
	json_t *ok = json_pack("{sI}", "duration_ms", (json_int_t)c->duration_ms);
	int code = WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);

	(void)json_object_set_new(ok, "exit_code",
		json_integer(c->timed_out ? EXIT_TIMED_OUT : code));
	if (WIFSIGNALED(c->status))
		(void)json_object_set_new(ok, "signal", json_integer(WTERMSIG(c->status)));
	if (c->timed_out)
		(void)json_object_set_new(ok, "timed_out", json_true());
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
			if (fds[i].revents &&
				read(i, sink, sizeof(sink)) <= 0) /* a terminal ends with EIO */
				fds[i].fd = -1;
		}
	}
	_exit(0);
}

bool command_is_held(const struct command *c)
{
	return c->exited && !c->killed && (c->out[0].fd >= 0 || c->out[1].fd >= 0);
}

void command_leave_pipes(struct command *c)
{
	const int fds[] = {c->out[0].fd, c->out[1].fd};

	/* A failure (no process to be had) leaves the pipes closed. */
	if (proc_fork(c->cgroup->dir_fd, fds, ARRAY_SIZE(fds)) == 0)
		read_to_end(fds);
}

static bool output_is_owed(const struct command_output *out)
{
	struct pollfd p = {.fd = out->fd, .events = POLLIN};

	if (!out->command->on_terminal)
		return out->owed > 0;
	return poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

static bool output_done(const struct command *c, const struct command_output *out)
{
	return out->fd < 0 || c->discard || (c->drained && !output_is_owed(out));
}

static void look_if_over(struct command *c)
{
	if (c->over || !c->exited || !output_done(c, &c->out[0]) || !output_done(c, &c->out[1]))
		return;
	c->over = true;
	c->ops->on_over(c);
}

static void on_drain_over(struct timer *timer)
{
	struct command *c = container_of(timer, struct command, drain);

	c->drained = true;
	look_if_over(c);
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
	look_if_over(c);
}

void command_kill(struct command *c)
{
	if (c->exited)
		return;
	c->killed = true;
	cgroup_kill(c->cgroup);
}

void command_signal(const struct command *c, int sig)
{
	/* A child that was started a moment ago leads no group yet. */
	if (!c->exited && kill(-c->child.pid, sig) < 0)
		(void)kill(c->child.pid, sig);
}

static void on_timeout(struct timer *timer)
{
	struct command *c = container_of(timer, struct command, timeout);

	c->timed_out = true;
	command_kill(c);
}

/* --- output -------------------------------------------------------------------------------- */

static void on_output(struct source *src, uint32_t revents)
{
	struct command_output *out = container_of(src, struct command_output, source);

	(void)revents;
	out->command->ops->on_output(out);
}

void command_output_took(struct command_output *out, ssize_t n)
{
	struct command *c = out->command;

	if (n == -EAGAIN)
		return;
	if (n <= 0)
		output_close(out);
	else if (c->exited)
		out->owed -= (int)n;
	look_if_over(c);
}

void command_discard(struct command *c)
{
	c->discard = true;
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
		output_close(&c->out[i]);
	look_if_over(c);
}

/* --- stdin --------------------------------------------------------------------------------- */

static void feed_stdin(struct command *c)
{
	ssize_t n = 0;

	if (c->in.len && c->in_fd >= 0)
		n = write(c->in_fd, c->in.data, c->in.len);
	if (n < 0 && errno != EAGAIN)
		stdin_close(c); /* EPIPE: nobody reads it */
	if (c->in_fd < 0)
		n = (ssize_t)c->in.len; /* to nowhere */
	if (n > 0)
		buf_consume(&c->in, (size_t)n);
	if (c->in.len == 0 && c->in_ended)
		stdin_close(c);
	source_set(&c->in_source, c->in.len ? EPOLLOUT : 0);
	if (n > 0)
		c->ops->on_fed(c, (size_t)n);
}

static void on_stdin_writable(struct source *src, uint32_t revents)
{
	(void)revents;
	feed_stdin(container_of(src, struct command, in_source));
}

void command_feed(struct command *c, const void *data, size_t len)
{
	if (buf_append(&c->in, data, len) < 0)
		abort(); /* out of memory: the window bounds it */
	feed_stdin(c);
}

void command_end_input(struct command *c)
{
	if (c->on_terminal)
		return; /* its end is typed */
	c->in_ended = true;
	feed_stdin(c);
}

/* --- the beginning ------------------------------------------------------------------------- */

/* What runs on a terminal where nothing is asked for. */
static const char login_shell[] = "[ -x \"$SHELL\" ] || SHELL=/bin/sh; exec \"$SHELL\" -l";

/* The arguments of either form; borrowed from the request, the array to be freed. */
static const char **request_argv(const json_t *request, struct err *err)
{
	const char *cmd = request_text(request, "cmd");
	const json_t *list = json_object_get(request, "argv");
	size_t n = json_array_size(list);
	const char **argv;

	if (!cmd && !list && json_object_get(request, "pty"))
		cmd = login_shell;
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
struct command_request {
	const char **argv; /* owned array of borrowed text */
	struct env env;
	struct proc_user user;
	bool as_user;
	bool with_stdin;
	const json_t *pty; /* borrowed; NULL: pipes */
	int cwd_fd;        /* owned */
	int64_t timeout_ms;
};

static void request_done(struct command_request *req)
{
	free(req->argv);
	env_done(&req->env);
	cleanup_close(&req->cwd_fd);
}

static int parse_request(struct agent *agent, const json_t *request, struct command_request *req,
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
	req->pty = json_object_get(request, "pty");
	if (req->pty)
		env_set(&req->env, "TERM", "xterm-256color");
	environment = agent_path(agent, "/etc/environment");
	env_build(&req->env, environment, req->user.home, req->user.name, agent->env, env);
	req->with_stdin = json_is_true(json_object_get(request, "stdin"));
	req->timeout_ms = json_integer_value(json_object_get(request, "timeout_ms"));
	return 0;
}

static int open_pipes(struct command *c, bool with_stdin, int theirs[3], struct err *err)
{
	int r;

	if (with_stdin)
		r = open_pipe(&c->in_fd, &theirs[0], false);
	else
		r = (theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 ? -errno : 0;
	if (r == 0)
		r = open_pipe(&c->out[0].fd, &theirs[1], true);
	if (r == 0)
		r = open_pipe(&c->out[1].fd, &theirs[2], true);
	return r < 0 ? err_set_errno(err, r, "opening pipes") : 0;
}

static int open_terminal(struct command *c, const struct command_request *req, int theirs[3],
	struct err *err)
{
	uid_t owner = req->as_user ? req->user.uid : 0;
	int r = terminal_open(req->pty, owner, &c->out[0].fd, &theirs[0], err);

	if (r < 0)
		return r;
	c->on_terminal = true;
	c->in_fd = fcntl(c->out[0].fd, F_DUPFD_CLOEXEC, 0);
	theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 0);
	theirs[2] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 0);
	if (c->in_fd < 0 || theirs[1] < 0 || theirs[2] < 0)
		return err_set_errno(err, -errno, "opening a terminal");
	return 0;
}

static int spawn(struct command *c, const struct command_request *req, const int theirs[3],
	struct err *err)
{
	pid_t pid;
	int r;

	c->cgroup = cgroup_new(&c->agent->cgroups, "cmd");
	r = proc_spawn(
		&(struct proc_spec){
			.argv = req->argv,
			.envp = req->env.vars,
			.fds = {theirs[0], theirs[1], theirs[2], -1},
			.on_terminal = req->pty,
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

static int start(struct command *c, const struct command_request *req, struct err *err)
{
	int theirs[3] = {-1, -1, -1};
	int r = req->pty ? open_terminal(c, req, theirs, err)
			 : open_pipes(c, req->with_stdin, theirs, err);

	if (r == 0)
		r = spawn(c, req, theirs, err);
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		cleanup_close(&theirs[i]);
	return r;
}

static int watch_output(struct command *c)
{
	struct loop *loop = &c->agent->loop;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->out) && c->out[i].fd >= 0 && r == 0; i++)
		r = source_attach(&c->out[i].source, loop, c->out[i].fd, EPOLLIN, on_output);
	if (c->in_fd >= 0 && r == 0)
		r = source_attach(&c->in_source, loop, c->in_fd, 0, on_stdin_writable);
	return r;
}

int command_start(struct command *c, struct agent *agent, const json_t *request,
	const struct command_ops *ops, struct err *err)
{
	CLEANUP(request_done) struct command_request req = {.cwd_fd = -1};
	int r;

	c->agent = agent;
	c->ops = ops;
	c->in_fd = -1;
	c->in = buf_init(LIMIT_STREAM_WINDOW);
	for (size_t i = 0; i < ARRAY_SIZE(c->out); i++) {
		c->out[i].fd = -1;
		c->out[i].command = c;
		c->out[i].channel = i == 0 ? LINK_CH_STDOUT : LINK_CH_STDERR;
	}
	timer_init(&c->timeout, on_timeout);
	timer_init(&c->drain, on_drain_over);
	r = parse_request(agent, request, &req, err);
	if (r == 0)
		r = start(c, &req, err);
	if (r < 0)
		return r;
	if (watch_output(c) < 0)
		abort(); /* out of memory */
	c->started_ms = clock_mono_ms();
	if (req.timeout_ms > 0)
		timer_start(&c->timeout, &agent->loop, req.timeout_ms);
	return 0;
}
