/* SPDX-License-Identifier: Apache-2.0 */
/* A command that belongs to a stream: its output with back-pressure, its stdin, its end. */
/*
 * A pipe (or the terminal) is read only while the stream has room, so a slow reader stops the command and nothing else. A cancel by the host and
 * the end of the generation kill it, as its timeout does. Once it is over (command.c), a pipe that others still hold is left to
 * a reader of its own: the result says `background`.
 */
#include "exec.h"

#include <signal.h>

#include "base/macros.h"
#include "command.h"
#include "terminal.h"

struct exec {
	struct list node;
	struct command command;
	struct stream *stream; /* NULL once the link dropped it */
};

static struct exec *exec_of(struct command *c)
{
	return container_of(c, struct exec, command);
}

static void exec_free(struct exec *e)
{
	list_remove(&e->node);
	command_free(&e->command);
	free(e);
}

/* --- what the command does ----------------------------------------------------------------- */

static void on_output(struct command_output *out)
{
	struct exec *e = exec_of(out->command);
	size_t room = stream_room(e->stream);
	ssize_t n;

	if (room == 0) {
		source_set(&out->source, 0);
		stream_want_room(e->stream);
		return;
	}
	n = stream_send_from(e->stream, out->channel, out->fd, -1, room);
	if (n > 0 && !out->command->on_terminal)
		output_log_push(&out->command->agent->log, out->channel,
			stream_sent(e->stream, (size_t)n), (size_t)n);
	command_output_took(out, n);
}

static void on_fed(struct command *c, size_t n)
{
	struct exec *e = exec_of(c);

	if (e->stream)
		stream_consumed(e->stream, n);
}

static void on_over(struct command *c)
{
	struct exec *e = exec_of(c);
	json_t *ok = command_result(c);

	if (command_is_held(c)) {
		command_leave_pipes(c);
		(void)json_object_set_new(ok, "background", json_true());
	}
	if (e->stream)
		stream_close(e->stream, ok);
	else
		json_decref(ok);
	exec_free(e);
}

static const struct command_ops command_ops = {
	.on_output = on_output,
	.on_fed = on_fed,
	.on_over = on_over,
};

/* --- what the host wants ------------------------------------------------------------------- */

static void on_room(struct stream *s)
{
	struct exec *e = s->owner;

	for (size_t i = 0; i < ARRAY_SIZE(e->command.out); i++)
		source_set(&e->command.out[i].source, EPOLLIN);
}

static void on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct exec *e = s->owner;

	command_feed(&e->command, data, len);
}

static void on_end(struct stream *s)
{
	struct exec *e = s->owner;

	command_end_input(&e->command);
}

static void on_event(struct stream *s, const json_t *event)
{
	const struct exec *e = s->owner;
	json_int_t sig = json_integer_value(json_object_get(event, "signal"));

	if (sig > 0 && sig < NSIG)
		command_signal(&e->command, (int)sig);
	if (e->command.on_terminal && e->command.out[0].fd >= 0)
		terminal_resize(e->command.out[0].fd, json_object_get(event, "resize"));
}

static void on_cancel(struct stream *s)
{
	struct exec *e = s->owner;

	command_kill(&e->command);
	command_discard(&e->command);
}

static void on_gone(struct stream *s)
{
	struct exec *e = s->owner;

	e->stream = NULL;
	command_kill(&e->command);
	command_discard(&e->command);
}

static const struct stream_ops ops = {
	.on_data = on_data,
	.on_end = on_end,
	.on_event = on_event,
	.on_cancel = on_cancel,
	.on_room = on_room,
	.on_gone = on_gone,
};

void exec_open(struct agent *agent, struct stream *s, const json_t *request)
{
	struct exec *e = xnew(struct exec);
	struct err err;

	list_append(&agent->commands, &e->node);
	if (command_start(&e->command, agent, request, &command_ops, &err) < 0) {
		stream_fail(s, &err);
		exec_free(e);
		return;
	}
	e->stream = s;
	s->ops = &ops;
	s->owner = e;
}

void exec_kill_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->commands) {
		struct exec *e = container_of(it, struct exec, node);

		command_kill(&e->command);
		exec_free(e);
	}
}
