/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command: a child in a session and a control group of its own, with pipes or on a terminal. What exec.c (a command that belongs to a stream)
 * and process.c (one that goes on by itself) have in common.
 *
 *	command_start() ──▶ on_output… ──▶ exit ──▶ on_output… ──▶ on_over ──▶ command_free()
 *
 * command_free() is right at any time, in the callbacks too.
 */
#pragma once

#include <stdbool.h>

#include "agent.h"

struct command;

struct command_output {
	struct source source; /* the owner may stop it: source_set() */
	struct command *command;
	int fd; /* owned; -1 at its end */
	uint8_t channel;
	int owed; /* bytes that were in the pipe when the child exited, not yet delivered */
};

struct command_ops {
	/* Output can be read. What was, or the end, is told by command_output_took(). */
	void (*on_output)(struct command_output *out);
	/* So many bytes of command_feed() have gone to the command, or to nowhere where it reads no more. */
	void (*on_fed)(struct command *c, size_t n);
	/* It has ended, and its output was read. May free the command. */
	void (*on_over)(struct command *c);
};

struct command {
	struct agent *agent;
	const struct command_ops *ops;
	struct child child;
	struct cgroup *cgroup;
	struct command_output out[2]; /* of a terminal only the first */
	bool on_terminal;
	struct source in_source;
	int in_fd; /* owned; -1: closed, or there never was one; a terminal's is that of out[0] once more */
	struct buf in;
	bool in_ended; /* nothing comes behind `in` */
	struct timer timeout;
	struct timer drain;
	int64_t started_ms;
	int64_t duration_ms;
	int status; /* of waitpid(), once `exited` */
	bool exited;
	bool drained; /* the time to wait for late output is over */
	bool over;    /* on_over was called */
	bool timed_out;
	bool killed;  /* by us: nothing of it lives on */
	bool discard; /* nobody wants the output any more */
};

/*
 * Starts what the request asks for: `cmd` or `argv`, `cwd`, `env`, `stdin` or `pty`, `timeout_ms`, `user` (api/link.md). `c` is zeroed; also
 * after a failure command_free() is due.
 */
int command_start(struct command *c, struct agent *agent, const json_t *request,
	const struct command_ops *ops, struct err *err);

/* Ends its use, not what it holds in; what of it still runs goes on. */
void command_free(struct command *c);

/* After a read of its pipe: bytes, 0 at the end, or a negative errno. May call on_over. */
void command_output_took(struct command_output *out, ssize_t n);

/* Sends to its stdin. The caller bounds how much waits, by on_fed. */
void command_feed(struct command *c, const void *data, size_t len);
void command_end_input(struct command *c);

/* A signal for its process group; it may have left it. */
void command_signal(const struct command *c, int sig);
/* SIGKILL for the whole control group. */
void command_kill(struct command *c);

/* Nobody wants its output any more. May call on_over. */
void command_discard(struct command *c);

/* True while others hold its pipes, though it has ended. */
bool command_is_held(const struct command *c);

/* Leaves held pipes to a small process that reads them to their end: a service started with `&` must not die of SIGPIPE when it
 * logs. */
void command_leave_pipes(struct command *c);

/* How it ended: `exit_code`, `signal`, `timed_out`, `duration_ms`. */
json_t *command_result(const struct command *c);
