/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel: its process, control socket and output pipes.
 *
 * kernel_new() → kernel_start() → on_ready → kernel_run() → on_done → … → on_dead → kernel_free(), which is right
 * at any time but inside on_done. While a cell runs, all output goes to its stream, at the pace
 * of that stream; between cells a bounded amount is kept for the next one, of this kernel or of that which replaces it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "agent.h"

struct kernel;

struct kernel_ops {
	/* It has started, or (err) never will. May free the kernel. */
	void (*on_ready)(struct kernel *k, const struct err *err);
	/* The cell is over; `result` is what the runtime said, borrowed. */
	void (*on_done)(struct kernel *k, const json_t *result);
	/* The process is gone and all its output is delivered. May free the kernel. */
	void (*on_dead)(struct kernel *k, int status, bool out_of_memory);
};

/* Output between cells, of one channel. */
struct kernel_kept {
	struct buf text;
	uint64_t dropped; /* bytes that did not fit */
};

enum { KERNEL_PIPES = 2 };

struct kernel_pipe {
	struct source source;
	struct kernel *kernel;
	int fd;   /* owned; -1 at its end */
	int owed; /* bytes to forward before the next frame of the control socket */
	uint8_t channel;
};

struct kernel {
	struct agent *agent;
	const struct kernel_ops *ops;
	void *owner;
	char *language; /* owned */
	char *cwd;      /* owned */
	json_t *env;    /* owned */
	struct runtime_waiter waiter;
	struct timer start_timer;
	struct timer reseed_timer; /* runs until it is told to reseed */
	int start_tries;
	pid_t claimed_pid;  /* what the kernel says it is, until checked */
	struct child child; /* child.pid is 0 until then, and after its exit */
	struct cgroup *cgroup;
	struct source control;
	int control_fd; /* owned */
	struct kernel_pipe out[KERNEL_PIPES];
	struct kernel_kept *kept; /* borrowed from the owner: one for each of these */
	size_t inherited;         /* of what is kept of stderr: a kernel before has said it */
	struct buf tx;
	/* The control socket's input, and the frame at its front. */
	size_t rx_len;
	uint8_t rx[64 * 1024];
	bool in_frame;
	bool heard; /* the event at hand began in a cell: it is passed on */
	uint8_t type;
	uint32_t left;   /* of the frame's payload */
	struct buf text; /* payload of short frames */
	bool blocked;    /* input waits for room in the stream */
	bool nonsense;   /* it broke the framing: what comes now is thrown away */
	/* The cell. */
	struct stream *stream; /* borrowed; NULL between cells or when nobody listens */
	bool running;
	bool asking; /* it waits for input */
	uint64_t started_ticks;
	uint64_t oom_kills; /* in its group before */
	/* The end. */
	bool exited;
	int status;
	int control_owed;
};

void kernel_kept_init(struct kernel_kept kept[KERNEL_PIPES]);
void kernel_kept_clear(struct kernel_kept kept[KERNEL_PIPES]);
void kernel_kept_done(struct kernel_kept kept[KERNEL_PIPES]);

/* `cwd` and `env` (a JSON object) are what the kernel starts with; env's reference is taken. `kept` (stdout, stderr; borrowed) is for
 * its output between cells, and may hold that of a kernel before. */
struct kernel *kernel_new(struct agent *agent, const char *language, const char *cwd, json_t *env,
	struct kernel_kept kept[KERNEL_PIPES], const struct kernel_ops *ops, void *owner);
/* Answers with on_ready, perhaps at once. */
void kernel_start(struct kernel *k);
/* Kills the process and its children. Returns NULL. */
struct kernel *kernel_free(struct kernel *k);

static inline pid_t kernel_pid(const struct kernel *k)
{
	return k->child.pid;
}

/* Runs a cell: `request` as the runtime takes it (borrowed); `s` is NULL when nobody listens. -EMSGSIZE when it is too long. */
int kernel_run(struct kernel *k, struct stream *s, const json_t *request);

/* Answers a cell that asks for input (borrowed). -EBUSY when it does not, -EMSGSIZE when it is too long. */
int kernel_input(struct kernel *k, const char *value);

/* This machine is a copy: the kernel seeds its global random generators anew, before its next cell. */
void kernel_reseed(struct kernel *k);

/* The cell's stream has room again. */
void kernel_on_room(struct kernel *k);

/* Nobody listens to the cell any more: its output is dropped. */
void kernel_mute(struct kernel *k);

/* SIGINT for the kernel; SIGKILL for what the cell started. */
void kernel_interrupt(struct kernel *k);
void kernel_sweep(struct kernel *k);

/* SIGKILL for all; on_dead follows. */
void kernel_kill(struct kernel *k);
