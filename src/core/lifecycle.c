/* SPDX-License-Identifier: Apache-2.0 */
/* Pause and resume, hibernate and wake, and what happens to an idle sandbox. */
#include <errno.h>

#include "base/log.h"
#include "core/core_internal.h"

/* Leads from any of some states to another one. */
struct change {
	unsigned int from; /* 1 << state, each */
	enum sandbox_state to;
	const char *verb;
	int (*make)(struct core *core, struct sandbox *sb, struct err *err); /* `op` is held */
};

/* Where a sandbox is told to be where it is already, nothing is done. */
static int make_change(struct core *core, struct sandbox *sb, const struct change *change,
	struct err *err)
{
	enum sandbox_state state;
	int r = 0;

	pthread_mutex_lock(&sb->op);
	state = sandbox_state_of(sb);
	if (change->from & (1u << state))
		r = change->make(core, sb, err);
	else if (state != change->to)
		r = err_set(err, ERR_CONFLICT, -EBUSY, "a sandbox that is %s can't be %s",
			sandbox_state_name(state), change->verb);
	pthread_mutex_unlock(&sb->op);
	return r;
}

static int pause_it(struct core *core, struct sandbox *sb, struct err *err)
{
	int r = sandbox_pause(sb, core->ops, err);

	if (r == 0)
		r = core_note_state(core, sb, SANDBOX_PAUSED, err);
	/* An error means that nothing has changed. */
	if (r < 0 && sandbox_state_of(sb) == SANDBOX_PAUSED)
		sandbox_put_back(sb, core->ops);
	if (r < 0)
		return r;
	log_info("sandbox paused", LOG_STR("sandbox", sb->id));
	sandbox_event(sb, "sandbox.paused", NULL);
	return 0;
}

int core_pause(struct core *core, struct sandbox *sb, struct err *err)
{
	static const struct change change = {1u << SANDBOX_RUNNING, SANDBOX_PAUSED, "paused",
		pause_it};

	return make_change(core, sb, &change, err);
}

static int resume_it(struct core *core, struct sandbox *sb, struct err *err)
{
	int r = core_note_state(core, sb, SANDBOX_RUNNING, err);

	if (r == 0)
		r = sandbox_unpause(sb, core->ops, err);
	if (r < 0) {
		(void)core_note_state(core, sb, SANDBOX_PAUSED,
			NULL); /* the next daemon lets it go on else */
		return r;
	}
	log_info("sandbox resumed", LOG_STR("sandbox", sb->id));
	sandbox_event(sb, "sandbox.resumed", NULL);
	return 0;
}

int core_resume(struct core *core, struct sandbox *sb, struct err *err)
{
	static const struct change change = {1u << SANDBOX_PAUSED, SANDBOX_RUNNING, "resumed",
		resume_it};

	return make_change(core, sb, &change, err);
}

static int hibernate_it(struct core *core, struct sandbox *sb, struct err *err)
{
	int r = sandbox_hibernate(sb, core->ops, err);

	if (r < 0)
		return r;
	log_info("sandbox hibernated", LOG_STR("sandbox", sb->id));
	sandbox_event(sb, "sandbox.hibernated", NULL);
	return 0;
}

int core_hibernate(struct core *core, struct sandbox *sb, struct err *err)
{
	static const struct change change = {1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED,
		SANDBOX_HIBERNATED, "hibernated", hibernate_it};

	return make_change(core, sb, &change, err);
}

static int wake_it(struct core *core, struct sandbox *sb, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	int r = core_load_template(core, sb->template, sb->version, &t, err);

	if (r < 0)
		return r;
	(void)sandbox_set_state(sb, SANDBOX_WAKING);
	r = sandbox_wake(sb, core->hub, core->ops, t, err);
	if (r < 0)
		return r;
	sandbox_touch(sb);
	core_count_boot(core, BOOT_WAKE, sb->boot_us);
	log_info("sandbox woken", LOG_STR("sandbox", sb->id),
		LOG_INT("boot_ms", sb->boot_us / 1000));
	sandbox_event(sb, "sandbox.woken",
		json_pack("{s:I}", "boot_ms", (json_int_t)(sb->boot_us / 1000)));
	return 0;
}

int core_wake(struct core *core, struct sandbox *sb, struct err *err)
{
	static const struct change change = {1u << SANDBOX_HIBERNATED, SANDBOX_RUNNING, "woken",
		wake_it};

	return make_change(core, sb, &change, err);
}

int core_auto_wake(struct core *core, struct sandbox *sb, struct err *err)
{
	/* Who hibernates or wakes it just now holds `op`. */
	int r = core_wake(core, sb, err);

	if (r < 0 && err && err->kind != ERR_CONFLICT)
		(void)err_wrap(err, "the sandbox can't be woken");
	return r;
}

int core_set_lifecycle(struct core *core, struct sandbox *sb, const struct lifecycle *change,
	struct err *err)
{
	int64_t ttl, idle;
	bool persistent;
	int r;

	sandbox_wait_created(sb);
	pthread_mutex_lock(&sb->op);
	ttl = change->ttl_seconds ? *change->ttl_seconds : atomic_load(&sb->ttl_seconds);
	idle = change->idle_seconds ? *change->idle_seconds : atomic_load(&sb->idle_seconds);
	persistent = change->persistent ? *change->persistent : atomic_load(&sb->persistent);
	r = store_set_lifecycle(core->store, sb->id, ttl, persistent, idle, err);
	if (r == 0) {
		atomic_store(&sb->ttl_seconds, ttl);
		atomic_store(&sb->idle_seconds, idle);
		atomic_store(&sb->persistent, persistent);
	}
	pthread_mutex_unlock(&sb->op);
	sandbox_touch(sb);
	core_wake_keeper(core); /* it may end earlier now */
	return r;
}
