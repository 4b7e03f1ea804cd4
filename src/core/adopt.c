/* SPDX-License-Identifier: Apache-2.0 */
/* Taking over the machines that an earlier daemon left running. */
#include "core/adopt.h"

#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "core/core_internal.h"

enum { THREADS = 16 };

struct adoption {
	struct link_hub *hub;
	const struct engine_ops *ops;
	struct sandbox *all[LIMIT_SANDBOXES]; /* references */
	unsigned int n;
	atomic_uint next; /* the first that no thread has taken */
};

static void adopt_one(const struct adoption *a, struct sandbox *sb)
{
	struct err err = {0};
	char why[256];
	int r;

	if (sb->failure) {
		(void)sandbox_set_state(sb, SANDBOX_FAILED);
		return;
	}
	if (sb->registered == SANDBOX_HIBERNATED) {
		fork_forget_shared(sb); /* the host may have lost power, and it was not synced */
		a->ops->kill_left(
			sb->dir); /* it was being woken, or the process had not ended yet */
		(void)sandbox_set_state(sb, SANDBOX_HIBERNATED);
		return;
	}
	r = sandbox_adopt(sb, a->hub, a->ops, &err);
	if (r == 0) {
		(void)sandbox_set_state(sb,
			sb->registered == SANDBOX_PAUSED ? SANDBOX_PAUSED : SANDBOX_RUNNING);
		log_info("sandbox taken over", LOG_STR("sandbox", sb->id));
		return;
	}
	(void)snprintf(why, sizeof(why),
		r == -ESRCH ? "%s while no daemon ran" : "it can't be taken over: %s",
		err_msg(&err));
	(void)sandbox_set_state(sb, SANDBOX_RUNNING); /* from which it fails */
	(void)sandbox_fail(sb, why);
	a->ops->kill_left(sb->dir); /* one that runs but can't be reached */
}

static void *adopt_some(void *arg)
{
	struct adoption *a = arg;
	unsigned int i;

	while ((i = atomic_fetch_add(&a->next, 1)) < a->n)
		adopt_one(a, a->all[i]);
	return NULL;
}

static int collect(struct sandbox *sb, void *user)
{
	struct adoption *a = user;

	if (a->n < ARRAY_SIZE(a->all)) /* the registry takes no more */
		a->all[a->n++] = sandbox_ref(sb);
	return 0;
}

void adopt_all(struct core *core, struct link_hub *hub, const struct engine_ops *ops)
{
	_cleanup_free_ struct adoption *a = xnew(struct adoption);
	pthread_t threads[THREADS];
	unsigned int n = 0;

	a->hub = hub;
	a->ops = ops;
	core_each(core, collect, a);
	/* This thread works too, and alone where there can be no other. */
	while (n + 1 < MIN(a->n, (unsigned int)THREADS) &&
		pthread_create(&threads[n], NULL, adopt_some, a) == 0)
		n++;
	(void)adopt_some(a);
	while (n > 0)
		(void)pthread_join(threads[--n], NULL);
	for (unsigned int i = 0; i < a->n; i++)
		sandbox_unref(a->all[i]);
}
