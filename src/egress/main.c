/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pandastack-egress: the network of one sandbox, and its policy. The daemon starts it; it is not for people.
 *
 * Descriptor 3 is the engine's network card (stack.h), 4 a listening socket for daemons and 5 the first one's connection to it
 * (control.h), 6 the engine's process (pidfd_open(2)), with which it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/sched/types.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "egress/control.h"
#include "egress/isolate.h"

enum { FD_CARD = 3, FD_LISTEN, FD_DAEMON, FD_ENGINE };
enum { STREAM_BUFFER_MIN = 128 << 10 }; /* of libslirp's, which grow before they are used */
enum { TURN_NS = 100000 };              /* the shortest that there is */

/*
 * It works for some microseconds at a time, and a guest that opens a connection waits for it. Linux (since 6.12) lets a task
 * that asks for short turns run sooner after it wakes; without that it waits for the engine's threads to end theirs.
 */
static void ask_for_short_turns(void)
{
	struct sched_attr attr;

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
		return;
	attr.sched_runtime = TURN_NS;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0); /* it works without, too */
}

/*
 * A stream's buffers are mappings of their own: they take what was touched of them, and grow without being copied. The C library
 * takes them from the heap's end all the same where that has room for them.
 */
static void keep_buffers_out_of_the_heap(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, STREAM_BUFFER_MIN);
	(void)mallopt(M_TOP_PAD, 0);
}

static int run(struct control *control, struct stack *stack)
{
	static struct pollset set;
	int r = 0;

	while (r == 0) {
		set.n = 0;
		set.timeout_ms = -1;
		(void)pollset_add(&set, FD_ENGINE, POLLIN); /* the first */
		control_fill(control, &set);
		stack_fill(stack, &set);
		if (poll(set.fds, set.n, set.timeout_ms) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (set.fds[0].revents)
			return -EPIPE;
		r = control_work(control, &set, stack);
		if (r == 0)
			r = stack_work(stack, &set);
	}
	return r;
}

static int start(struct control *control, struct stack **ret, struct err *err)
{
	int r = host_calls_start();

	json_object_seed(0); /* from a file, while there are any */
	if (r < 0)
		return err_set_errno(err, r, "can't ask for routes");
	r = control_wait_config(control, err);
	if (r == 0)
		r = stack_prove(err);
	host_calls_on_denied(control_denied, control);
	if (r == 0)
		r = stack_new(FD_CARD, ret, err);
	if (r < 0)
		return r;
	stack_set_rate(*ret, control_rate(control));
	return isolate(err);
}

int main(int argc, char **argv)
{
	struct control *control;
	struct stack *stack = NULL;
	struct err err = {0};
	int r;

	if (argc > 1 || fcntl(FD_CARD, F_GETFD) < 0 || fcntl(FD_LISTEN, F_GETFD) < 0) {
		(void)fprintf(stderr, "%s is started by pandastack serve\n", argv[0]);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail */
	keep_buffers_out_of_the_heap();
	ask_for_short_turns();
	control = control_new(FD_LISTEN, FD_DAEMON);
	r = start(control, &stack, &err);
	if (r < 0)
		control_failed(control, err_msg(&err));
	else
		r = run(control, stack);
	stack_free(stack);
	control_free(control);
	return r == -EPIPE ? 0 : 1;
}
