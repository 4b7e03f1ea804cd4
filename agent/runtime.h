/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel runtime's zygote: a Python process with everything imported, which forks kernels.
 *
 * runtime_want() starts it when needed and calls back once it is warm; then runtime_fork() asks for
 * a kernel. The forked kernel belongs to its session (session.h), which hears from it on its own
 * control socket.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "loop.h"
#include "reap.h"

struct agent;

struct runtime {
	struct agent *agent;
	struct source source;
	int fd; /* owned; the channel, -1 while there is no zygote */
	struct child child;
	struct cgroup *cgroup;
	struct timer deadline; /* for becoming warm */
	struct buf in;
	json_t *info; /* what the zygote said when it was warm; NULL until then */
	struct list waiters;
	struct list forks; /* waiters whose kernel was asked for */
	uint32_t next_id;
};

struct runtime_waiter {
	struct list node;
	/* The zygote is warm (err NULL), or will not be. The waiter is off the list. */
	void (*on_ready)(struct runtime_waiter *w, const struct err *err);
	uint32_t fork_id; /* of runtime_fork() */
	struct err err;   /* why that failed, once the zygote has said so */
};

/* What a kernel starts with. */
struct runtime_spec {
	const char *language;
	const char *cwd;
	const char *cgroup; /* directory of its control group; NULL: none */
	json_t *env;        /* an object */
};

void runtime_init(struct runtime *rt, struct agent *agent);
void runtime_done(struct runtime *rt);

/* Calls back at once where the answer is known. */
void runtime_want(struct runtime *rt, struct runtime_waiter *w);
static inline void runtime_waiter_cancel(struct runtime_waiter *w)
{
	list_remove(&w->node);
}

/*
 * Asks the warm zygote for a kernel with the descriptors control, stdout, stderr. That it was forked
 * shows on the control socket; that it was not, by the end of it: runtime_fork_failed() then knows why.
 */
int runtime_fork(struct runtime *rt, struct runtime_waiter *w, const struct runtime_spec *spec,
	const int fds[3], struct err *err);
/* True, with w->err, when the zygote has refused this waiter's fork. It may end the runtime, which
 * answers other waiters. */
bool runtime_fork_failed(struct runtime *rt, struct runtime_waiter *w);
