/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C during a build. */
#include "bake/cancel.h"

#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>

static struct {
	pthread_mutex_t lock;
	int pidfd; /* borrowed; -1 for none */
	bool requested;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .pidfd = -1};

/* The lock is held. The signal fails where the process has ended by itself. */
static void end_tracked(void)
{
	if (state.requested && state.pidfd >= 0)
		(void)pidfd_send_signal(state.pidfd, SIGTERM, NULL, 0);
}

/* Of that signal, by its default action. The next build takes away what is left. */
static void end_at_once(int sig)
{
	sigset_t set;

	(void)signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	(void)raise(sig);
}

static void *wait_for_signal(void *arg)
{
	const sigset_t *set = arg;
	int sig;

	for (;;) {
		if (sigwait(set, &sig) != 0)
			continue;
		pthread_mutex_lock(&state.lock);
		if (state.requested)
			end_at_once(sig);
		state.requested = true;
		end_tracked();
		pthread_mutex_unlock(&state.lock);
	}
	return NULL;
}

int cancel_init(void)
{
	static sigset_t set;
	pthread_t thread;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	(void)signal(SIGCHLD,
		SIG_DFL); /* ignored, it would take the exit status of our children away */
	r = -pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (r == 0)
		r = -pthread_create(&thread, NULL, wait_for_signal, &set);
	if (r == 0)
		r = -pthread_detach(thread);
	return r;
}

void cancel_track(int pidfd)
{
	pthread_mutex_lock(&state.lock);
	state.pidfd = pidfd;
	end_tracked();
	pthread_mutex_unlock(&state.lock);
}

bool cancel_requested(void)
{
	bool requested;

	pthread_mutex_lock(&state.lock);
	requested = state.requested;
	pthread_mutex_unlock(&state.lock);
	return requested;
}
