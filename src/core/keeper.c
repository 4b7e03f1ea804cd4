/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keepers: what happens to sandboxes without a request.
 *
 * Theory of operation
 * -------------------
 * Two threads look at every sandbox, sleep until the earliest time at which one of them needs them, and are woken before
 * because a machine or a link has ended, or a sandbox's state or times changed. A sandbox that is used expires later, which needs no
 * wake: a keeper finds out when it looks.
 *
 * The first one ends: machines whose process or link has ended, sandboxes that have expired. It waits for nobody's
 * operation. The second one hibernates idle sandboxes, which takes a disk's and an engine's time; so it is another.
 */
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "core/core_internal.h"

void core_wake_keeper(struct core *core)
{
	pthread_mutex_lock(&core->lock);
	for (unsigned int i = 0; i < ARRAY_SIZE(core->keepers); i++)
		core->keepers[i].look = true;
	pthread_cond_broadcast(&core->wake);
	pthread_mutex_unlock(&core->lock);
}

static void expire(struct core *core, struct sandbox *sb)
{
	log_info("sandbox expired", LOG_STR("sandbox", sb->id));
	sandbox_event(sb, "sandbox.expired", NULL);
	pthread_mutex_lock(&core->lock);
	core->stats.expired++;
	pthread_mutex_unlock(&core->lock);
	(void)core_delete(core, sb, NULL); /* always ends with it gone */
}

/* Somebody pauses, captures, wakes or deletes it: that is use, and waiting for it would leave all others unattended. */
static bool is_busy(struct sandbox *sb)
{
	if (pthread_mutex_trylock(&sb->op) != 0)
		return true;
	pthread_mutex_unlock(&sb->op);
	return false;
}

/* Returns when to look at it again. */
static int64_t see_to_end(struct core *core, struct sandbox *sb)
{
	enum sandbox_state state = sandbox_state_of(sb);
	int64_t next = INT64_MAX, expires;

	/* The change of its state that ends this wakes us. */
	if (!sandbox_has_machine(state) && state != SANDBOX_FAILED && state != SANDBOX_HIBERNATED)
		return next;
	if (sandbox_has_machine(state))
		next = MIN(sandbox_check_end(sb, core->ops), sandbox_check_network(sb));
	if (atomic_load(&sb->users) > 0)
		sandbox_touch(sb);
	expires = sandbox_expires(sb);
	if (expires > clock_mono_ms())
		return MIN(next, expires);
	fault_point("keeper.expires");
	if (is_busy(sb))
		return MIN(next, clock_mono_ms() + BUSY_LOOK_MS);
	expire(core, sb);
	return INT64_MAX;
}

static int64_t see_to_idle(struct core *core, struct sandbox *sb)
{
	int64_t idle;
	struct err err;

	if (!sandbox_has_machine(sandbox_state_of(sb)))
		return INT64_MAX;
	if (atomic_load(&sb->users) > 0)
		sandbox_touch(sb);
	idle = sandbox_idle_at(sb);
	if (idle > clock_mono_ms())
		return idle;
	if (is_busy(sb))
		return clock_mono_ms() + BUSY_LOOK_MS;
	log_info("sandbox is idle", LOG_STR("sandbox", sb->id));
	sandbox_event(sb, "sandbox.idle", NULL);
	if (core_hibernate(core, sb, &err) == 0)
		return INT64_MAX;
	log_warn("can't hibernate a sandbox", LOG_STR("sandbox", sb->id),
		LOG_STR("error", err_msg(&err)));
	sandbox_touch(sb); /* and try again when it has been idle once more */
	return sandbox_idle_at(sb);
}

struct round {
	const struct keeper *keeper;
	int64_t next;
};

static int see_to_one(struct sandbox *sb, void *user)
{
	struct round *round = user;
	int64_t next = round->keeper->see_to(round->keeper->core, sb);

	round->next = MIN(round->next, next);
	return 0;
}

static void *keeper_main(void *arg)
{
	struct keeper *keeper = arg;
	struct core *core = keeper->core;

	pthread_mutex_lock(&core->lock);
	while (!core->stop) {
		struct round round = {.keeper = keeper, .next = INT64_MAX};

		keeper->look = false;
		pthread_mutex_unlock(&core->lock);
		core_each(core, see_to_one, &round);
		pthread_mutex_lock(&core->lock);
		while (!core->stop && !keeper->look) {
			int64_t wait = MIN(round.next - clock_mono_ms(), (int64_t)24 * 3600 * 1000);
			struct timespec deadline = clock_deadline(MAX(wait, 0));

			if (pthread_cond_timedwait(&core->wake, &core->lock, &deadline))
				break;
		}
	}
	pthread_mutex_unlock(&core->lock);
	return NULL;
}

int keepers_start(struct core *core, struct err *err)
{
	static int64_t (*const jobs[])(struct core *, struct sandbox *) = {see_to_end, see_to_idle};

	static_assert(ARRAY_SIZE(jobs) == ARRAY_SIZE(core->keepers), "a thread for each");
	for (unsigned int i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct keeper *keeper = &core->keepers[i];
		int r;

		keeper->core = core;
		keeper->see_to = jobs[i];
		r = -pthread_create(&keeper->thread, NULL, keeper_main, keeper);
		if (r < 0)
			return err_set_errno(err, r, "can't start a thread");
		keeper->runs = true;
	}
	return 0;
}

void keepers_stop(struct core *core)
{
	pthread_mutex_lock(&core->lock);
	core->stop = true;
	pthread_cond_broadcast(&core->wake);
	pthread_mutex_unlock(&core->lock);
	for (unsigned int i = 0; i < ARRAY_SIZE(core->keepers); i++) {
		if (core->keepers[i].runs)
			(void)pthread_join(core->keepers[i].thread, NULL);
	}
}
