/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a long job on stderr. */
#include "bake/progress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"

struct progress {
	bool terminal;
	pthread_t ticker;
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t changed;
	bool stop;
	char text[160]; /* of the running step, "" for none */
	int64_t start_ms;
};

static void show(const struct progress *p, const char *end)
{
	double s = (double)(clock_mono_ms() - p->start_ms) / 1000;

	(void)fprintf(stderr, "%s  %-64s %7.1f s%s", p->terminal ? "\r" : "", p->text, s, end);
	(void)fflush(stderr);
}

static void *tick(void *arg)
{
	struct progress *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct timespec deadline = clock_deadline(1000);

		if (p->text[0])
			show(p, "");
		(void)pthread_cond_timedwait(&p->changed, &p->lock, &deadline);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct progress *progress_new(void)
{
	struct progress *p = xnew(struct progress);
	pthread_condattr_t attr;

	p->terminal = isatty(STDERR_FILENO);
	(void)pthread_mutex_init(&p->lock, NULL); /* these never fail on Linux */
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&p->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	if (p->terminal && pthread_create(&p->ticker, NULL, tick, p) != 0)
		p->terminal = false; /* then without a running count */
	return p;
}

/* The lock is held. */
static void end_step(struct progress *p, const char *how)
{
	if (p->text[0])
		show(p, how);
	p->text[0] = '\0';
}

struct progress *progress_free(struct progress *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	end_step(p, "  failed\n");
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->terminal)
		(void)pthread_join(p->ticker, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p);
	return NULL;
}

void progress_step(struct progress *p, const char *text)
{
	pthread_mutex_lock(&p->lock);
	end_step(p, "\n");
	(void)snprintf(p->text, sizeof(p->text), "%s", text);
	p->start_ms = clock_mono_ms();
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void progress_done(struct progress *p)
{
	pthread_mutex_lock(&p->lock);
	end_step(p, "\n");
	pthread_mutex_unlock(&p->lock);
}
