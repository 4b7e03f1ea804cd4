/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox's way out: its policy, and its helper from the start of its machine to the end.
 *
 * `egress` is treated as `vm` and `link` are (machine.c): given with `op` held, taken by who takes the machine apart. A helper that ends
 * before its machine does is started anew by the keeper; what was connected is lost.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "core/core_internal.h"

enum {
	RESTART_PAUSE_MS = 1000, /* from one start to the next, of a helper that does not stay */
	NETWORK_TIMEOUT_MS = 10000,
};

/* The hub's thread. */
static void on_denied(const struct egress_denial *denial, void *user)
{
	struct sandbox *sb = user;

	sandbox_event(sb, "egress.denied",
		json_pack("{s:s, s:s, s:i, s:s*, s:s, s:I}", "protocol", denial->protocol,
			"address", denial->address, "port", denial->port, "name", denial->name,
			"why", denial->why, "more", (json_int_t)denial->more));
}

static void on_ended(void *user)
{
	struct sandbox *sb = user;

	atomic_store(&sb->offline, true);
	core_wake_keeper(sb->core);
}

static struct egress_callbacks callbacks_for(struct sandbox *sb)
{
	return (struct egress_callbacks){.on_denied = on_denied, .on_ended = on_ended, .user = sb};
}

/* A copy, for `network` may be replaced. */
static json_t *copy_policy(struct sandbox *sb)
{
	json_t *policy;

	pthread_mutex_lock(&sb->lock);
	policy = json_deep_copy(sb->network);
	pthread_mutex_unlock(&sb->lock);
	return policy;
}

bool sandbox_has_network(struct sandbox *sb)
{
	bool open;

	pthread_mutex_lock(&sb->lock);
	open = egress_is_open(sb->network);
	pthread_mutex_unlock(&sb->lock);
	return open;
}

const json_t *sandbox_packages(struct sandbox *sb)
{
	const struct egress_host *host = &sb->core->egress_host;
	bool has;

	pthread_mutex_lock(&sb->lock);
	has = egress_has_mirror(host, sb->network);
	pthread_mutex_unlock(&sb->lock);
	return has ? host->packages : NULL;
}

static void put_egress(struct sandbox *sb, struct egress *e)
{
	pthread_mutex_lock(&sb->lock);
	sb->egress = e;
	pthread_mutex_unlock(&sb->lock);
}

int sandbox_start_network(struct sandbox *sb, struct err *err)
{
	const struct egress_callbacks callbacks = callbacks_for(sb);
	struct core *core = sb->core;
	json_t *policy = copy_policy(sb);
	struct egress *e;
	int r = 0;

	if (egress_is_open(policy)) {
		atomic_store(&sb->offline, false);
		sb->network_began_ms = clock_mono_ms();
		r = egress_start(core->hub, &core->egress_host, sb->vm, policy, &callbacks, &e,
			err);
		if (r == 0)
			put_egress(sb, e);
	}
	json_decref(policy);
	return r;
}

int sandbox_adopt_network(struct sandbox *sb, struct err *err)
{
	const struct egress_callbacks callbacks = callbacks_for(sb);
	struct core *core = sb->core;
	json_t *policy = copy_policy(sb);
	struct egress *e = NULL;
	int r = 0;

	if (egress_is_open(policy))
		r = egress_adopt(core->hub, &core->egress_host, sb->vm, policy, &callbacks, &e,
			NULL);
	json_decref(policy);
	if (e)
		put_egress(sb, e);
	/* It has ended meanwhile, as nothing of the machine's did. */
	return r < 0 ? sandbox_start_network(sb, err) : 0;
}

void sandbox_end_network(struct sandbox *sb, bool keep)
{
	struct egress *e;

	pthread_mutex_lock(&sb->lock);
	e = sb->egress;
	sb->egress = NULL;
	pthread_mutex_unlock(&sb->lock);
	egress_free(e, !keep);
	atomic_store(&sb->offline, false);
}

int64_t sandbox_check_network(struct sandbox *sb)
{
	int64_t look_ms = INT64_MAX;
	struct err err;

	if (!atomic_load(&sb->offline))
		return look_ms;
	if (pthread_mutex_trylock(&sb->op) != 0)
		return clock_mono_ms() + RESTART_PAUSE_MS;
	pthread_mutex_lock(&sb->teardown);
	if (sb->network_began_ms + RESTART_PAUSE_MS > clock_mono_ms()) {
		look_ms = sb->network_began_ms + RESTART_PAUSE_MS;
	} else if (sb->vm && !atomic_load(&sb->ended) && atomic_load(&sb->offline)) {
		/* Where the machine has ended the helper has for that reason. */
		sandbox_end_network(sb, false);
		log_warn("an egress helper ended, and is started anew", LOG_STR("sandbox", sb->id));
		if (sandbox_start_network(sb, &err) < 0) {
			log_warn("no egress helper", LOG_STR("sandbox", sb->id),
				LOG_STR("error", err_msg(&err)));
			atomic_store(&sb->offline, true);
			look_ms = clock_mono_ms() + RESTART_PAUSE_MS;
		}
	}
	pthread_mutex_unlock(&sb->teardown);
	pthread_mutex_unlock(&sb->op);
	return look_ms;
}

json_t *sandbox_network(struct sandbox *sb, json_t **ret_counters)
{
	json_t *policy = copy_policy(sb);

	if (!ret_counters)
		return policy;
	*ret_counters = NULL;
	/* `op` keeps the helper; what it does not count now, it counts next time. */
	if (pthread_mutex_trylock(&sb->op) == 0) {
		pthread_mutex_lock(&sb->teardown);
		if (sb->egress)
			(void)egress_stats(sb->egress, ret_counters, NULL);
		fault_point("network.counted");
		pthread_mutex_unlock(&sb->teardown);
		pthread_mutex_unlock(&sb->op);
	}
	return policy;
}

/* Its network card goes up or down with the way out, and its package managers change theirs; a machine that stands still hears of it
 * when it goes on. */
static int tell_guest(struct sandbox *sb, struct err *err)
{
	json_t *request;

	if (sandbox_state_of(sb) != SANDBOX_RUNNING)
		return 0;
	request = sandbox_go_on_request(sb);
	return sandbox_call(sb, request, NETWORK_TIMEOUT_MS, -1, NULL, err);
}

/* `teardown` is held, and `network` is the new policy. */
static int apply(struct sandbox *sb, struct err *err)
{
	json_t *policy;
	int r;

	if (!sb->vm)
		return 0; /* it begins with the next machine */
	if (!sandbox_has_network(sb)) {
		sandbox_end_network(sb, false);
		return 0;
	}
	if (!sb->egress)
		return sandbox_start_network(sb, err);
	policy = copy_policy(sb);
	r = egress_set_policy(sb->egress, policy, err);
	json_decref(policy);
	return r;
}

/* Takes the reference. */
static void put_policy(struct sandbox *sb, json_t *policy)
{
	pthread_mutex_lock(&sb->lock);
	json_decref(sb->network);
	sb->network = policy;
	pthread_mutex_unlock(&sb->lock);
}

int core_set_network(struct core *core, struct sandbox *sb, const json_t *change, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *policy, *before;
	struct err why;
	int r, told = 0;

	sandbox_wait_created(sb);
	pthread_mutex_lock(&sb->op);
	before = copy_policy(sb);
	policy = json_deep_copy(before);
	(void)json_object_update(policy, (json_t *)(uintptr_t)change);
	text = json_dumps(policy, JSON_COMPACT);
	r = egress_is_open(policy) ? engine_require(&core->engine, "network", err) : 0;
	if (r == 0)
		r = text ? store_set_network(core->store, sb->id, text, err)
			 : err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	if (r == 0) {
		put_policy(sb, json_incref(policy));
		pthread_mutex_lock(&sb->teardown);
		r = apply(sb, err);
		/* A helper that does not take its policy must not go on with the old one: the keeper starts another. */
		if (r < 0) {
			sandbox_end_network(sb, false);
			atomic_store(&sb->offline, true);
			core_wake_keeper(core);
		}
		pthread_mutex_unlock(&sb->teardown);
		if (r == 0 &&
			(egress_is_open(before) != egress_is_open(policy) ||
				egress_has_mirror(&core->egress_host, before) !=
					egress_has_mirror(&core->egress_host, policy)))
			told = tell_guest(sb, &why);
	}
	pthread_mutex_unlock(&sb->op);
	if (r == 0)
		sandbox_event(sb, "network.changed", json_incref(policy));
	/* It is in force whatever the guest makes of it. */
	if (told < 0)
		log_warn("a guest did not take the change of its network",
			LOG_STR("sandbox", sb->id), LOG_STR("error", err_msg(&why)));
	json_decref(before);
	json_decref(policy);
	return r;
}
