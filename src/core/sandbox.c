/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox: its state, and its use.
 *
 * Theory of operation
 * -------------------
 * `op` is held by whoever changes what a sandbox is: pauses, captures, hibernates, wakes, deletes it. Such an operation may
 * take seconds, and the sandbox goes on being used meanwhile, or its request waits for a wake. PAUSED, HIBERNATING, HIBERNATED
 * and WAKING are entered and left with it held (but for the end of the machine); sandbox_state.h has them all.
 *
 * Three threads meet here: the holder of `op` (which alone gives the sandbox a machine, see machine.c), handlers that use
 * it (they take a reference to the link under `lock` and go on without it), and the keeper, which turns the end of the
 * process into FAILED. Whoever takes the machine apart holds `teardown`, so that it happens once and the keeper never looks
 * at a machine that is being freed. The hub's callbacks only set a flag, wake the keeper or read the console,
 * and take none of these locks: so their end can be waited for with `teardown` held. The console is the hub's thread's
 * as long as it is watched. Lock order: op → teardown → lock.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/sandbox_internal.h"

/* ---- life of the object ---- */

/* RFC 9562, version 4. */
void core_make_id(char dst[SANDBOX_ID_SIZE])
{
	uint8_t b[16];

	randombytes_buf(b, sizeof(b));
	b[6] = (b[6] & 0x0F) | 0x40;
	b[8] = (b[8] & 0x3F) | 0x80;
	(void)snprintf(dst, SANDBOX_ID_SIZE,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

static struct sandbox *alloc(struct core *core, const char *data_dir, const char *id,
	const struct engine_info *engine)
{
	struct sandbox *sb = xnew(struct sandbox);
	pthread_condattr_t attr;

	atomic_init(&sb->refs, 1);
	sb->core = core;
	(void)snprintf(sb->id, sizeof(sb->id), "%s", id);
	sb->engine = engine->name;
	sb->isolation = engine->isolation;
	if (asprintf(&sb->dir, "%s/sandboxes/%s", data_dir, id) < 0)
		abort();
	sb->events = event_log_new(sb->dir);
	console_init(&sb->console);
	(void)pthread_mutex_init(&sb->lock, NULL); /* these never fail on Linux */
	(void)pthread_mutex_init(&sb->teardown, NULL);
	(void)pthread_mutex_init(&sb->op, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&sb->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	return sb;
}

struct sandbox *sandbox_new(struct core *core, const char *data_dir, const struct template *t,
	const struct sandbox_spec *spec, const struct engine_info *engine)
{
	char id[SANDBOX_ID_SIZE];
	struct sandbox *sb;

	core_make_id(id);
	sb = alloc(core, data_dir, id, engine);
	sb->template = xstrdup(t->name);
	sb->version = xstrdup(t->version);
	sb->metadata = spec->metadata ? json_deep_copy(spec->metadata) : json_object();
	sb->env = spec->env ? json_deep_copy(spec->env) : json_object();
	sb->network = spec->network ? json_deep_copy(spec->network) : json_object();
	sb->idempotency_key = xstrdup(spec->idempotency_key);
	sb->created_ms = clock_real_ms();
	atomic_init(&sb->ttl_seconds, spec->ttl_seconds ? spec->ttl_seconds : DEFAULT_TTL_SECONDS);
	atomic_init(&sb->idle_seconds,
		spec->idle_seconds ? spec->idle_seconds : DEFAULT_IDLE_SECONDS);
	atomic_init(&sb->persistent, spec->persistent);
	sb->parent = xstrdup(spec->parent);
	sb->from_snapshot = xstrdup(spec->from_snapshot);
	sb->boot_mode = spec->parent ? BOOT_FORK : BOOT_SNAPSHOT;
	sb->accel = t->image.accel;
	sb->cpus = t->image.cpus;
	sb->memory_bytes = t->image.memory_bytes;
	sandbox_touch(sb);
	return sb;
}

static enum boot_mode boot_mode_from_name(const char *name)
{
	enum boot_mode mode = BOOT_SNAPSHOT;

	while (mode < _BOOT_MODE_MAX && strcmp(boot_mode_name(mode), name) != 0)
		mode++;
	return mode < _BOOT_MODE_MAX ? mode : BOOT_SNAPSHOT;
}

static json_t *load_object(const char *text)
{
	json_t *json = json_loads(text, 0, NULL);

	if (json_is_object(json))
		return json;
	json_decref(json);
	return json_object();
}

struct sandbox *sandbox_from_row(struct core *core, const char *data_dir,
	const struct store_sandbox *row, const struct engine_info *engine)
{
	struct sandbox *sb = alloc(core, data_dir, row->id, engine);

	sb->template = xstrdup(row->template);
	sb->version = xstrdup(row->version);
	sb->metadata = load_object(row->metadata);
	sb->env = load_object(row->env);
	sb->network = load_object(row->network);
	sb->idempotency_key = xstrdup(row->idempotency_key);
	sb->failure = xstrdup(row->failure);
	sb->created_ms = row->created_ms;
	atomic_init(&sb->ttl_seconds, row->ttl_seconds);
	atomic_init(&sb->idle_seconds, row->idle_seconds);
	atomic_init(&sb->persistent, row->persistent != 0);
	sb->parent = xstrdup(row->parent);
	sb->from_snapshot = xstrdup(row->from_snapshot);
	sb->boot_mode = boot_mode_from_name(row->boot_mode);
	(void)sandbox_state_from_name(row->state, &sb->registered); /* an unknown word: CREATING */
	sb->boot_us = row->boot_ms * 1000;
	if (accel_from_name(row->accel, &sb->accel) < 0)
		sb->accel = engine->accel;
	sb->cpus = (unsigned int)row->cpus;
	sb->memory_bytes = (uint64_t)row->memory_bytes;
	sandbox_touch(sb);
	return sb;
}

struct sandbox *sandbox_ref(struct sandbox *sb)
{
	atomic_fetch_add(&sb->refs, 1);
	return sb;
}

struct sandbox *sandbox_unref(struct sandbox *sb)
{
	if (!sb || atomic_fetch_sub(&sb->refs, 1) > 1)
		return NULL;
	assert(!sb->vm && !sb->link && !sb->egress);
	free(sb->dir);
	free(sb->template);
	free(sb->version);
	free(sb->idempotency_key);
	free(sb->failure);
	free(sb->parent);
	free(sb->from_snapshot);
	json_decref(sb->metadata);
	json_decref(sb->env);
	json_decref(sb->network);
	event_log_free(sb->events);
	console_done(&sb->console);
	pthread_mutex_destroy(&sb->lock);
	pthread_mutex_destroy(&sb->teardown);
	pthread_mutex_destroy(&sb->op);
	pthread_cond_destroy(&sb->changed);
	free(sb);
	return NULL;
}

const char *sandbox_id(const struct sandbox *sb)
{
	return sb->id;
}

void sandbox_touch(struct sandbox *sb)
{
	atomic_store(&sb->used_mono_ms, clock_mono_ms());
}

int64_t sandbox_expires(const struct sandbox *sb)
{
	if (atomic_load(&sb->persistent))
		return INT64_MAX;
	return atomic_load(&sb->used_mono_ms) + atomic_load(&sb->ttl_seconds) * 1000;
}

int64_t sandbox_idle_at(const struct sandbox *sb)
{
	if (!atomic_load(&sb->persistent))
		return INT64_MAX;
	return atomic_load(&sb->used_mono_ms) + atomic_load(&sb->idle_seconds) * 1000;
}

void sandbox_use_begin(struct sandbox *sb)
{
	atomic_fetch_add(&sb->users, 1);
	sandbox_touch(sb);
}

void sandbox_use_end(struct sandbox *sb)
{
	sandbox_touch(sb); /* first: the keeper may look in between */
	atomic_fetch_sub(&sb->users, 1);
}

void sandbox_event(struct sandbox *sb, const char *type, json_t *payload)
{
	event_log_add(sb->events, type, payload);
}

struct event_log *sandbox_events(struct sandbox *sb)
{
	return sb->events;
}

struct console *sandbox_console(struct sandbox *sb)
{
	return &sb->console;
}

/* ---- state ---- */

/* The lock is held. */
static bool set_state_locked(struct sandbox *sb, enum sandbox_state to)
{
	if (!sandbox_state_may(sb->state, to))
		return false;
	sb->state = to;
	pthread_cond_broadcast(&sb->changed);
	return true;
}

bool sandbox_set_state(struct sandbox *sb, enum sandbox_state to)
{
	bool ok;

	pthread_mutex_lock(&sb->lock);
	ok = set_state_locked(sb, to);
	pthread_mutex_unlock(&sb->lock);
	core_wake_keeper(sb->core); /* there are states in which it does not look */
	return ok;
}

enum sandbox_state sandbox_state_of(struct sandbox *sb)
{
	enum sandbox_state state;

	pthread_mutex_lock(&sb->lock);
	state = sb->state;
	pthread_mutex_unlock(&sb->lock);
	return state;
}

void sandbox_wait_created(struct sandbox *sb)
{
	pthread_mutex_lock(&sb->lock);
	while (sb->state == SANDBOX_CREATING)
		pthread_cond_wait(&sb->changed, &sb->lock);
	pthread_mutex_unlock(&sb->lock);
}

void sandbox_wait_deleted(struct sandbox *sb)
{
	pthread_mutex_lock(&sb->lock);
	while (sb->state != SANDBOX_DELETED)
		pthread_cond_wait(&sb->changed, &sb->lock);
	pthread_mutex_unlock(&sb->lock);
}

void sandbox_get_info(struct sandbox *sb, struct sandbox_info *ret)
{
	int64_t expires = sandbox_expires(sb);

	*ret = (struct sandbox_info){
		.template = xstrdup(sb->template),
		.metadata = sandbox_metadata(sb),
		.engine = sb->engine,
		.isolation = sb->isolation,
		.accel = sb->accel,
		.cpus = sb->cpus,
		.memory_bytes = sb->memory_bytes,
		.created_ms = sb->created_ms,
		.expires_ms =
			expires == INT64_MAX ? 0 : clock_real_ms() + expires - clock_mono_ms(),
		.ttl_seconds = atomic_load(&sb->ttl_seconds),
		.idle_seconds = atomic_load(&sb->idle_seconds),
		.persistent = atomic_load(&sb->persistent),
		.parent = xstrdup(sb->parent),
		.from_snapshot = xstrdup(sb->from_snapshot),
	};
	memcpy(ret->id, sb->id, sizeof(ret->id));
	pthread_mutex_lock(&sb->lock);
	ret->state = sb->state;
	ret->network = json_deep_copy(sb->network);
	ret->failure = xstrdup(sb->failure);
	ret->boot_ms = sb->boot_us / 1000;
	ret->boot_mode = sb->boot_mode;
	ret->pid = sb->vm ? sb->vm->pid : 0;
	pthread_mutex_unlock(&sb->lock);
}

void sandbox_info_done(struct sandbox_info *info)
{
	free(info->template);
	free(info->failure);
	free(info->parent);
	free(info->from_snapshot);
	json_decref(info->metadata);
	json_decref(info->network);
	*info = (struct sandbox_info){0};
}

bool sandbox_fail(struct sandbox *sb, const char *why)
{
	bool failed;

	pthread_mutex_lock(&sb->lock);
	failed = set_state_locked(sb, SANDBOX_FAILED);
	if (failed)
		sb->failure = xstrdup(why);
	pthread_mutex_unlock(&sb->lock);
	if (!failed)
		return false;
	log_warn("sandbox failed", LOG_STR("sandbox", sb->id), LOG_STR("why", why));
	/* `failure` does not change any more. */
	sandbox_detach(sb, false, sb->failure);
	core_note_failure(sb->core, sb);
	sandbox_event(sb, "vm.died", json_pack("{s:s}", "reason", sb->failure));
	return true;
}

/* ---- use ---- */

static const char *state_advice(enum sandbox_state state)
{
	if (state == SANDBOX_PAUSED)
		return ": resume it first";
	return state == SANDBOX_STOPPING ? ": create a new one" : "";
}

/* A reference to the link of a running sandbox, or NULL with the reason why there is none. */
static struct link *running_link(struct sandbox *sb, enum sandbox_state *ret_state, struct err *err)
{
	struct link *link = NULL;

	pthread_mutex_lock(&sb->lock);
	*ret_state = sb->state;
	if (sb->state == SANDBOX_RUNNING && sb->link)
		link = link_ref(sb->link);
	else if (sb->failure)
		(void)err_set(err, ERR_SANDBOX_FAILED, -EHOSTDOWN,
			"the sandbox failed: %s; create a new one", sb->failure);
	else
		(void)err_set(err, ERR_CONFLICT, -EHOSTDOWN, "the sandbox is %s%s",
			sandbox_state_name(sb->state), state_advice(sb->state));
	pthread_mutex_unlock(&sb->lock);
	return link;
}

/* The same for a caller who takes it as it is: one that is hibernated is woken. */
static struct link *take_link(struct sandbox *sb, struct err *err)
{
	enum sandbox_state state;
	struct err why = {0};
	struct link *link = running_link(sb, &state, err ? err : &why);

	if (!link &&
		(state == SANDBOX_HIBERNATED || state == SANDBOX_HIBERNATING ||
			state == SANDBOX_WAKING) &&
		core_auto_wake(sb->core, sb, err) == 0)
		link = running_link(sb, &state, err);
	return link;
}

int sandbox_open(struct sandbox *sb, json_t *request, struct link_stream **ret, struct err *err)
{
	struct link *link = take_link(sb, err);
	int r;

	if (!link) {
		json_decref(request);
		return err ? err->os : -EHOSTDOWN;
	}
	r = link_open(link, request, ret, err);
	link_unref(link);
	return r == -EPIPE ? sandbox_explain(sb, err) : r;
}

/* Takes the link's reference, which may be NULL with *err filled. */
static int call_on(struct sandbox *sb, struct link *link, json_t *request, int64_t timeout_ms,
	int hangup_fd, json_t **ret, struct err *err)
{
	int r;

	if (!link) {
		json_decref(request);
		return err ? err->os : -EHOSTDOWN;
	}
	r = link_call(link, request, timeout_ms, hangup_fd, ret, err);
	link_unref(link);
	return r == -EPIPE ? sandbox_explain(sb, err) : r;
}

int sandbox_call(struct sandbox *sb, json_t *request, int64_t timeout_ms, int hangup_fd,
	json_t **ret, struct err *err)
{
	return call_on(sb, take_link(sb, err), request, timeout_ms, hangup_fd, ret, err);
}

int sandbox_peek(struct sandbox *sb, json_t *request, int64_t timeout_ms, int hangup_fd,
	json_t **ret, struct err *err)
{
	enum sandbox_state state;

	return call_on(sb, running_link(sb, &state, err), request, timeout_ms, hangup_fd, ret, err);
}

int sandbox_get_usage(struct sandbox *sb, struct vm_usage *ret)
{
	int r;

	pthread_mutex_lock(&sb->lock); /* the handle is freed after it was taken away under it */
	r = sb->vm ? vm_get_usage(sb->vm, ret) : -ESRCH;
	pthread_mutex_unlock(&sb->lock);
	return r;
}

int sandbox_explain(struct sandbox *sb, struct err *err)
{
	struct timespec deadline = clock_deadline(DEATH_NOTICE_MS);
	bool goes_on;
	char why[256];
	int r = 0;

	pthread_mutex_lock(&sb->lock);
	/* A link that was ended on purpose may have a successor already, which is not broken. */
	while (sb->state == SANDBOX_RUNNING && atomic_load(&sb->broken_ms) && r == 0)
		r = pthread_cond_timedwait(&sb->changed, &sb->lock, &deadline);
	pthread_mutex_unlock(&sb->lock);
	/* The link is broken, yet the machine runs: it is of no use to anybody. */
	if (r == ETIMEDOUT)
		(void)sandbox_fail(sb, sb->broken_why);
	pthread_mutex_lock(&sb->lock);
	goes_on = !sb->failure && sb->state != SANDBOX_STOPPING && sb->state != SANDBOX_DELETED;
	(void)snprintf(why, sizeof(why), "%s", sb->failure ? sb->failure : "it was deleted");
	pthread_mutex_unlock(&sb->lock);
	if (goes_on)
		return err_set(err, ERR_CONFLICT, -EPIPE,
			"what ran for this request ended: the sandbox was hibernated, or stood still "
			"with an engine whose calls do not outlive that");
	return err_set(err, ERR_SANDBOX_FAILED, -EPIPE, "the sandbox is gone: %s; create a new one",
		why);
}
