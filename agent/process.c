/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the background. */
/*
 * Theory of operation
 *
 * A process is a command (command.c) that belongs to no stream: it outlives its link's generations, and copies of the machine
 * have it too. What it writes is read at once and kept as far as it fits (output_log.c), so it never waits for a reader.
 * Three kinds of streams come and go meanwhile: those that are told of its output, those that wait for its end, and one at a
 * time that feeds its stdin.
 *
 * One that is over is remembered until another one needs its place, and goes on being read if children of its hold its
 * pipes.
 */
#include "process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "command.h"

enum {
	PROCESSES_MAX = 32, /* at once, those that are remembered included */
	/* Of the command, for lists: all of them fit one frame with every character escaped. */
	SHOWN_BYTES_MAX = 256,
	READ_BYTES = 64 * 1024,
};

struct process {
	struct list node;
	struct command command;
	uint32_t id;
	pid_t pid;
	char shown[SHOWN_BYTES_MAX + 1];
	bool with_stdin;
	int64_t started_ms; /* wall clock */
	struct output_log log;
	struct list waiters;
	struct writer *writer; /* NULL: nobody feeds it */
};

/* A stream that waits for the end. */
struct waiter {
	struct list node;
	struct process *process;
	struct stream *stream;
	struct timer timer;
};

/* A stream that feeds stdin. */
struct writer {
	struct process *process;
	struct stream *stream;
	uint64_t received, bytes; /* that the host sent, that the process has */
	bool eof;                 /* stdin ends with it */
	bool ended;               /* the host sent all */
};

static struct process *process_of(struct command *c)
{
	return container_of(c, struct process, command);
}

static json_t *describe(const struct process *p)
{
	const struct command *c = &p->command;
	json_t *json = c->over ? command_result(c) : json_object();

	(void)json_object_set_new(json, "process", json_integer(p->id));
	(void)json_object_set_new(json, "pid", json_integer(p->pid));
	(void)json_object_set_new(json, "cmd", json_string(p->shown));
	(void)json_object_set_new(json, "running", json_boolean(!c->over));
	(void)json_object_set_new(json, "stdin", json_boolean(c->in_fd >= 0 && !c->in_ended));
	(void)json_object_set_new(json, "started_ms", json_integer(p->started_ms));
	(void)json_object_set_new(json, "output_bytes",
		json_integer((json_int_t)p->log.ring.total));
	return json;
}

static void process_free(struct process *p)
{
	list_remove(&p->node);
	assert(list_empty(&p->waiters) && !p->writer);
	if (command_is_held(&p->command))
		command_leave_pipes(&p->command);
	command_free(&p->command);
	output_log_done(&p->log);
	free(p);
}

void process_free_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->processes) {
		struct process *p = container_of(it, struct process, node);

		command_kill(&p->command);
		process_free(p);
	}
}

/* The one that the request names; NULL, and the stream closed with an error, where there is none. */
static struct process *find(struct agent *agent, struct stream *s, const json_t *request)
{
	json_int_t id = json_integer_value(json_object_get(request, "process"));
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->processes) {
		struct process *p = container_of(it, struct process, node);

		if (p->id == id)
			return p;
	}
	stream_failf(s, -ECHILD, "no such process: %lld", (long long)id);
	return NULL;
}

/* --- its end ------------------------------------------------------------------------------- */

static void end_waiter(struct waiter *w)
{
	list_remove(&w->node);
	timer_stop(&w->timer);
	stream_close(w->stream, describe(w->process));
	free(w);
}

/*
 * Ends it when all that the host sent is with the process, or will never be. One whose process has taken all and then closed its
 * stdin, or ended, is told so only if more comes: its end may be on the way.
 */
static void look_if_written(struct writer *w)
{
	struct command *c = &w->process->command;
	bool is_open = c->in_fd >= 0, took_all = w->bytes == w->received;

	if (is_open ? !w->ended || !took_all : !w->ended && took_all)
		return;
	if (is_open && w->eof)
		command_end_input(c);
	w->process->writer = NULL;
	if (took_all)
		stream_close(w->stream, json_pack("{sI}", "bytes", (json_int_t)w->bytes));
	else
		stream_failf(w->stream, -EBUSY, "process %u reads no more input", w->process->id);
	free(w);
}

static void on_over(struct command *c)
{
	struct process *p = process_of(c);
	struct list *it, *tmp;

	if (p->writer)
		look_if_written(p->writer);
	list_for_each(it, tmp, &p->waiters)
		end_waiter(container_of(it, struct waiter, node));
	output_log_end(&p->log, describe(p));
}

static void on_waiter_timer(struct timer *timer)
{
	end_waiter(container_of(timer, struct waiter, timer));
}

static void waiter_on_gone(struct stream *s)
{
	struct waiter *w = s->owner;

	list_remove(&w->node);
	timer_stop(&w->timer);
	free(w);
}

static const struct stream_ops waiter_ops = {
	.on_gone = waiter_on_gone,
};

void process_get(struct agent *agent, struct stream *s, const json_t *request)
{
	json_int_t wait_ms = json_integer_value(json_object_get(request, "wait_ms"));
	struct process *p = find(agent, s, request);
	struct waiter *w;

	if (!p)
		return;
	if (p->command.over || wait_ms <= 0) {
		stream_close(s, describe(p));
		return;
	}
	w = xnew(struct waiter);
	w->process = p;
	w->stream = s;
	list_append(&p->waiters, &w->node);
	timer_init(&w->timer, on_waiter_timer);
	timer_start(&w->timer, &agent->loop, wait_ms);
	s->owner = w;
	s->ops = &waiter_ops;
}

void process_list(struct agent *agent, struct stream *s, const json_t *request)
{
	json_t *list = json_array();
	struct list *it, *tmp;

	(void)request;
	list_for_each(it, tmp, &agent->processes)
		(void)json_array_append_new(list, describe(container_of(it, struct process, node)));
	stream_close(s, json_pack("{so}", "processes", list));
}

/* --- its output ---------------------------------------------------------------------------- */

static void on_output(struct command_output *out)
{
	static char data[READ_BYTES];
	struct process *p = process_of(out->command);
	ssize_t n = read(out->fd, data, sizeof(data));

	if (n < 0)
		n = -errno;
	if (n > 0) {
		output_log_push(&p->log, out->channel, data, (size_t)n);
		output_log_push(&p->command.agent->log, out->channel, data, (size_t)n);
	}
	command_output_took(out, n);
}

void process_output(struct agent *agent, struct stream *s, const json_t *request)
{
	struct process *p = find(agent, s, request);

	if (p)
		output_log_attach(&p->log, s, true);
}

/* --- its stdin ----------------------------------------------------------------------------- */

static void on_fed(struct command *c, size_t n)
{
	struct writer *w = process_of(c)->writer;

	if (!w)
		return;
	stream_consumed(w->stream, n);
	if (c->in_fd >= 0)
		w->bytes += n;
	look_if_written(w);
}

static void writer_on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct writer *w = s->owner;

	w->received += len;
	command_feed(&w->process->command, data, len);
}

static void writer_on_end(struct stream *s)
{
	struct writer *w = s->owner;

	w->ended = true;
	look_if_written(w);
}

/* What the process has not taken by then it never gets. */
static void writer_on_gone(struct stream *s)
{
	struct writer *w = s->owner;

	w->process->writer = NULL;
	buf_clear(&w->process->command.in);
	free(w);
}

static const struct stream_ops writer_ops = {
	.on_data = writer_on_data,
	.on_end = writer_on_end,
	.on_gone = writer_on_gone,
};

void process_input(struct agent *agent, struct stream *s, const json_t *request)
{
	struct process *p = find(agent, s, request);

	if (!p)
		return;
	if (!p->with_stdin) {
		stream_failf(s, -EINVAL, "process %u was started without `stdin`", p->id);
		return;
	}
	if (p->command.in_fd < 0) {
		stream_failf(s, -EBUSY, "process %u reads no more input", p->id);
		return;
	}
	if (p->writer) {
		stream_failf(s, -EBUSY, "another request writes to the stdin of process %u", p->id);
		return;
	}
	p->writer = xnew(struct writer);
	p->writer->process = p;
	p->writer->stream = s;
	p->writer->eof = json_is_true(json_object_get(request, "eof"));
	s->owner = p->writer;
	s->ops = &writer_ops;
}

/* --- signals ------------------------------------------------------------------------------- */

void process_signal(struct agent *agent, struct stream *s, const json_t *request)
{
	json_int_t sig = json_integer_value(json_object_get(request, "signal"));
	struct process *p = find(agent, s, request);

	if (!p)
		return;
	if (sig <= 0 || sig >= NSIG) {
		stream_failf(s, -EINVAL, "\"signal\" must be a number from 1 to %d", NSIG - 1);
		return;
	}
	if (p->command.exited) {
		stream_failf(s, -EBUSY, "process %u has ended", p->id);
		return;
	}
	if (sig == SIGKILL)
		command_kill(&p->command); /* its children too */
	else
		command_signal(&p->command, (int)sig);
	stream_close(s, json_object());
}

/* --- the beginning ------------------------------------------------------------------------- */

static const struct command_ops command_ops = {
	.on_output = on_output,
	.on_fed = on_fed,
	.on_over = on_over,
};

/* Where there is no place, *ret is the one whose place a new one takes: the oldest that is over and that no stream belongs to. */
static int find_place(struct agent *agent, struct process **ret, struct err *err)
{
	struct process *oldest = NULL;
	struct list *it, *tmp;
	int n = 0;

	list_for_each(it, tmp, &agent->processes) {
		struct process *p = container_of(it, struct process, node);

		n++;
		if (!oldest && p->command.over && !output_log_has_readers(&p->log) && !p->writer)
			oldest = p;
	}
	if (n < PROCESSES_MAX)
		return 0;
	if (!oldest)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"there are %d processes in the background already; end one of them",
			PROCESSES_MAX);
	*ret = oldest;
	return 0;
}

/* The command, or its arguments with spaces between them. */
static void set_shown(struct process *p, const json_t *request)
{
	const char *cmd = request_text(request, "cmd");
	const json_t *list = json_object_get(request, "argv");
	char *to = p->shown;
	size_t left = sizeof(p->shown), n = cmd ? 1 : json_array_size(list);

	for (size_t i = 0; i < n; i++) {
		const char *word = cmd ? cmd : json_string_value(json_array_get(list, i));
		size_t len = (size_t)snprintf(to, left, "%s%s", i ? " " : "", word);

		if (len >= left)
			break;
		to += len;
		left -= len;
	}
	p->shown[str_utf8_floor(p->shown, strlen(p->shown))] = '\0';
}

void process_start(struct agent *agent, struct stream *s, const json_t *request)
{
	struct process *p, *replaced = NULL;
	struct err err;

	if (find_place(agent, &replaced, &err) < 0) {
		stream_fail(s, &err);
		return;
	}
	p = xnew(struct process);
	list_append(&agent->processes, &p->node);
	list_init(&p->waiters);
	output_log_init(&p->log);
	if (command_start(&p->command, agent, request, &command_ops, &err) < 0) {
		stream_fail(s, &err);
		process_free(p);
		return;
	}
	if (replaced)
		process_free(replaced);
	p->id = ++agent->last_process;
	p->pid = p->command.child.pid;
	p->with_stdin = p->command.in_fd >= 0;
	p->started_ms = clock_real_ms();
	set_shown(p, request);
	stream_close(s, describe(p));
}
