/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of a sandbox: started or adopted, captured, paused, hibernated and woken, and taken apart.
 *
 * What this file does to `vm` and `link`, it does with `op` or `teardown` held, or while the sandbox is in no list yet:
 * see sandbox.c.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/str.h"
#include "core/core_internal.h"
#include "core/sandbox_internal.h"
#include "core/state_dir.h"

enum {
	/* Until the agent has confirmed its identity; a restored machine takes 0.2 s. */
	RESUME_TIMEOUT_MS = 30000,
	ADOPT_TIMEOUT_MS = 10000,
	/* To a machine that stood still; others may wait for `op` meanwhile, and the guest answers as it likes. */
	GO_ON_TIMEOUT_MS = 5000,
	END_LOOK_MS = 500,
	CLOCK_SLACK_MS = 40,
	CLOCK_TRIES = 5,
	ENTROPY_BYTES = 64,
	BROKEN_UNSAID = -1, /* a thread is about to say why */
};

static void on_end(void *user)
{
	struct sandbox *sb = user;

	atomic_store(&sb->ended, true);
	core_wake_keeper(sb->core);
}

/* The guest broke the protocol, or its process is about to end and then says more. */
static void on_broken(void *user, const char *why)
{
	struct sandbox *sb = user;
	long long none = 0;

	if (!atomic_compare_exchange_strong(&sb->broken_ms, &none, BROKEN_UNSAID))
		return; /* somebody else has said why */
	(void)snprintf(sb->broken_why, sizeof(sb->broken_why), "%s", why);
	atomic_store(&sb->broken_ms, clock_mono_ms());
	core_wake_keeper(sb->core);
}

static void on_console(void *user)
{
	struct sandbox *sb = user;

	/* `vm` is set before the watch and freed after it; a closed console stays silent. */
	if (vm_drain_console(sb->vm))
		link_hub_rearm(sb->console_watch);
}

static void push_console(void *console, const void *data, size_t len)
{
	console_push(console, data, len);
}

/* Takes a started or adopted machine, and watches it. */
static int attach(struct sandbox *sb, struct link_hub *hub, struct vm *vm, struct err *err)
{
	int r;

	vm->on_console = push_console;
	vm->console_user = &sb->console;
	pthread_mutex_lock(&sb->lock);
	sb->vm = vm;
	pthread_mutex_unlock(&sb->lock);
	r = link_hub_watch(hub, vm->console_fd, on_console, sb, &sb->console_watch, err);
	if (r == 0)
		r = link_hub_watch(hub, vm->pidfd, on_end, sb, &sb->end_watch, err);
	return r;
}

/* Takes the link (a reference; NULL: the machine's, new, `padded` or not), in place of an earlier one. */
static int attach_link(struct sandbox *sb, struct link_hub *hub, struct link *link, bool padded,
	struct err *err)
{
	struct link *old;
	int r = link ? 0 : link_new(hub, vm_take_link(sb->vm), padded, &link, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->lock);
	old = sb->link;
	sb->link = link;
	pthread_mutex_unlock(&sb->lock);
	if (old) {
		link_on_dead(old, NULL, NULL);
		link_fail(old,
			"the machine stood still, and with this engine that ends what was under way");
	}
	link_unref(old);
	atomic_store(&sb->broken_ms, 0);
	link_on_dead(link, on_broken, sb);
	return 0;
}

/* Before it stands still: with an engine whose links do not outlive that, the end of this one is none of the machine. */
static void leave_link(struct sandbox *sb, const struct engine_ops *ops)
{
	if (ops->relink && sb->link)
		link_on_dead(sb->link, NULL, NULL);
}

/* Lets it go on, with a link. */
static int let_go_on(struct sandbox *sb, const struct engine_ops *ops, struct err *err)
{
	int r = ops->unpause(sb->vm, err);

	if (r < 0 || !ops->relink)
		return r;
	r = ops->relink(sb->vm, err);
	return r == 0 ? attach_link(sb, sb->core->hub, NULL, false, err) : r;
}

/* One that can't be let go on, or not be stopped again: it would not be what it is called. */
static void give_up(struct sandbox *sb, const struct err *err)
{
	char why[sizeof(sb->broken_why)];

	(void)snprintf(why, sizeof(why), "the machine can't be let go on: %s", err_msg(err));
	on_broken(sb, why);
}

/* What is told to a machine that begins or goes on: the time, fresh entropy, whether it has a way out, and how its package managers
 * find the daemon's cache, if they may. */
static json_t *go_on_request(bool network, const json_t *packages)
{
	uint8_t entropy[ENTROPY_BYTES];
	char text[sodium_base64_ENCODED_LEN(ENTROPY_BYTES, sodium_base64_VARIANT_ORIGINAL)];

	randombytes_buf(entropy, sizeof(entropy));
	(void)sodium_bin2base64(text, sizeof(text), entropy, sizeof(entropy),
		sodium_base64_VARIANT_ORIGINAL);
	return json_pack("{s:s, s:I, s:s, s:b, s:o*}", "op", "resume", "time_ns",
		(json_int_t)clock_real_ns(), "entropy", text, "network", network, "packages",
		json_deep_copy(packages));
}

json_t *sandbox_go_on_request(struct sandbox *sb)
{
	return go_on_request(sandbox_has_network(sb), sandbox_packages(sb));
}

/*
 * Sets the time of a machine that runs. It is old by as long as the call takes at most: where that is long, because many
 * machines start at once, it is set again, yet not for longer than `timeout_ms` in all.
 */
static int set_clock(struct sandbox *sb, struct link *link, int64_t timeout_ms, struct err *err)
{
	int64_t deadline = clock_mono_ms() + timeout_ms;
	int r = 0;

	for (int i = 0; r == 0 && i < CLOCK_TRIES; i++) {
		int64_t start = clock_mono_ms();

		if (start >= deadline)
			break;
		r = link_call(link, sandbox_go_on_request(sb), deadline - start, -1, NULL, err);
		if (clock_mono_ms() - start <= CLOCK_SLACK_MS)
			break;
	}
	return r;
}

static void add_identity(json_t *request, const char *id, const json_t *env)
{
	uint8_t machine_id[16];
	char machine_id_text[2 * sizeof(machine_id) + 1];
	char hostname[32];

	randombytes_buf(machine_id, sizeof(machine_id));
	str_hex(machine_id_text, machine_id, sizeof(machine_id));
	(void)snprintf(hostname, sizeof(hostname), "sandbox-%.8s", id);
	(void)json_object_set_new(request, "hostname", json_string(hostname));
	(void)json_object_set_new(request, "machine_id", json_string(machine_id_text));
	(void)json_object_set_new(request, "env", env ? json_deep_copy(env) : json_object());
}

json_t *sandbox_identity_request(const char *id, const json_t *env)
{
	json_t *request = go_on_request(true, NULL);

	add_identity(request, id, env);
	return request;
}

/* The same to a machine that was restored. */
static json_t *restored_request(struct sandbox *sb, const struct sandbox_source *source,
	bool new_identity)
{
	json_t *request = sandbox_go_on_request(sb);

	if (new_identity)
		add_identity(request, sb->id, sb->env);
	if (source->state_dir) /* a template's has no connections */
		(void)json_object_set_new(request, "new_network", json_true());
	return request;
}

/* Says why the process ended. It has, and nobody else takes the machine apart meanwhile. */
static void explain_end(struct sandbox *sb, const struct engine_ops *ops, char *why, size_t size)
{
	/* From here on the console is ours. */
	sb->console_watch = link_hub_unwatch(sb->console_watch);
	vm_reap(sb->vm);
	ops->why_dead(sb->vm, why, size);
}

/* The link says only that it broke; the process knows more. */
static void explain_boot_failure(struct sandbox *sb, const struct engine_ops *ops, struct err *err)
{
	char why[256];

	if (!spawn_ended(sb->vm->pidfd, DEATH_NOTICE_MS))
		return;
	explain_end(sb, ops, why, sizeof(why));
	(void)err_set(err, ERR_ENGINE, -EIO, "the machine did not start: %s", why);
}

/*
 * Starts the machine from the state, in its folder with its disk, and gives it its time and (a new one) its name. Or
 * goes on with a spare, which has been moved there.
 */
static int restore(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct sandbox_source *source, struct spare *spare, bool new_identity,
	struct err *err)
{
	const struct vm_spec spec = {.image = &source->t->image,
		.dir = sb->dir,
		.state_dir = source->state_dir};
	bool runs = spare && spare->link;
	int64_t asked_ms;
	struct vm *vm;
	int r = 0;

	if (spare)
		vm = steal_ptr(&spare->vm);
	else
		r = ops->start(&spec, &vm, err);
	if (r < 0)
		return r;
	r = attach(sb, hub, vm, err);
	if (r == 0 && !runs)
		r = ops->load(vm, &spec, err);
	if (r == 0)
		r = attach_link(sb, hub, runs ? steal_ptr(&spare->link) : NULL,
			source->state_dir != NULL, err);
	asked_ms = clock_mono_ms();
	if (r == 0)
		r = link_call(sb->link, restored_request(sb, source, new_identity),
			RESUME_TIMEOUT_MS, -1, NULL, err);
	/* As a rule the request waited until the machine was loaded: its time was old by then. */
	if (r == 0 && clock_mono_ms() - asked_ms > CLOCK_SLACK_MS)
		r = set_clock(sb, sb->link, RESUME_TIMEOUT_MS, err);
	/* Its process has set up its card by now. */
	if (r == 0)
		r = sandbox_start_network(sb, err);
	if (r == -EPIPE)
		explain_boot_failure(sb, ops, err);
	return r;
}

/* A hard link: the memory that a machine stands on, where that is not its template's, goes with it. */
static int share_memory(const char *from, const char *to_dir, struct err *err)
{
	_cleanup_free_ char *to = fs_join(to_dir, "memory");

	if (link(from, to) < 0 && errno != ENOENT)
		return err_set_errno(err, -errno, "can't link %s", from);
	return 0;
}

bool sandbox_source_fits_spare(const struct sandbox_source *source)
{
	_cleanup_free_ char *memory = NULL;

	if (!source->state_dir)
		return true;
	memory = fs_join(source->state_dir, "memory");
	return access(memory, F_OK) < 0;
}

static int make_folder(struct sandbox *sb, struct spare *spare, struct err *err)
{
	if (spare)
		return vm_move(spare->vm, sb->dir, err);
	return mkdir(sb->dir, 0700) < 0
		? err_set_errno(err, -errno, "can't make the folder %s", sb->dir)
		: 0;
}

/* Puts the disk (and the memory) that the machine starts from into its folder; a spare has those of its template. */
static int fill_folder(struct sandbox *sb, const struct sandbox_source *source, bool is_spare,
	struct err *err)
{
	const char *from = source->state_dir ? source->state_dir : source->t->image.dir;
	_cleanup_free_ char *disk = fs_join(from, "scratch.ext4");
	_cleanup_free_ char *own_disk = fs_join(sb->dir, "scratch.ext4");
	_cleanup_free_ char *memory = fs_join(from, "memory");
	int r;

	if (is_spare)
		return source->state_dir ? fs_clone_into(disk, own_disk, err) : 0;
	r = fs_clone(disk, own_disk, 0600, err);
	return r == 0 && source->state_dir ? share_memory(memory, sb->dir, err) : r;
}

int sandbox_boot(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct sandbox_source *source, struct spare *spare, struct err *err)
{
	int64_t start = clock_mono_us();
	bool warm = spare && spare->kind == POOL_WARM;
	int r = make_folder(sb, spare, err);

	fault_point("boot.folder");
	/* From here on nobody removes what it is made of. */
	if (r == 0)
		r = core_hold_template(sb->core, sb, err);
	if (r == 0)
		r = fill_folder(sb, source, spare != NULL, err);
	if (r == 0)
		r = restore(sb, hub, ops, source, spare, true, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->lock);
	if (warm)
		sb->boot_mode = BOOT_WARM;
	sb->boot_us = clock_mono_us() - start;
	pthread_mutex_unlock(&sb->lock);
	return 0;
}

/* ---- standing still ---- */

/* Writes everything; the machine stands still and is not taken apart meanwhile. */
static int write_state(struct sandbox *sb, const struct engine_ops *ops,
	const struct capture_spec *spec, uint64_t *ret_bytes, struct err *err)
{
	_cleanup_free_ char *devices = fs_join(spec->dir, "devices");
	_cleanup_free_ char *delta = fs_join(spec->dir, "delta");
	_cleanup_free_ char *disk = fs_join(sb->dir, "scratch.ext4");
	_cleanup_free_ char *disk_copy = fs_join(spec->dir, "scratch.ext4");
	_cleanup_free_ char *own_memory = fs_join(sb->dir, "memory");
	_cleanup_free_ char *memory = fs_join(spec->dir, "memory");
	bool has_base = spec->base && link(spec->base, memory) == 0;
	int r = 0;

	if (spec->base && !has_base && errno != ENOENT)
		return err_set_errno(err, -errno, "can't link %s", spec->base);
	r = ops->save_devices(sb->vm, devices, err);
	fault_point("capture.devices");
	if (r == 0)
		r = ops->save_memory(sb->vm, sb->memory_bytes, has_base ? memory : NULL, delta,
			ret_bytes, err);
	fault_point("capture.memory");
	if (r == 0)
		r = fs_clone(disk, disk_copy, 0600, err);
	fault_point("capture.disk");
	return r == 0 && !has_base ? share_memory(own_memory, spec->dir, err) : r;
}

static int err_no_machine(struct err *err)
{
	return err_set(err, ERR_SANDBOX_FAILED, -EHOSTDOWN,
		"the sandbox's machine has ended: create a new one");
}

/* Where a call to the engine failed because its process has ended, says that. Its sockets and its memory are gone some moments before. */
static int explain(const struct sandbox *sb, int r, struct err *err)
{
	bool full = r == -ENOSPC || r == -EDQUOT;

	if (r < 0 && spawn_ended(sb->vm->pidfd, full ? 0 : END_LOOK_MS))
		return err_no_machine(err);
	return r;
}

/* After it stood still: its clock is behind. The keeper may find the machine's end meanwhile: so the link is used with a reference. */
static void go_on(struct sandbox *sb)
{
	struct link *link;
	struct err err;

	pthread_mutex_lock(&sb->lock);
	link = sb->link ? link_ref(sb->link) : NULL;
	pthread_mutex_unlock(&sb->lock);
	fault_point("machine.goes_on");
	if (link && set_clock(sb, link, GO_ON_TIMEOUT_MS, &err) < 0)
		log_warn("the clock was not set", LOG_STR("sandbox", sb->id),
			LOG_STR("error", err_msg(&err)));
	link_unref(link);
}

int sandbox_capture(struct sandbox *sb, const struct engine_ops *ops,
	const struct capture_spec *spec, struct capture_stats *ret, struct err *err)
{
	bool goes_on = !spec->was_paused && spec->use != CAPTURE_HIBERNATE;
	int64_t start;
	int r = 0;

	pthread_mutex_lock(&sb->teardown);
	if (!sb->vm) {
		pthread_mutex_unlock(&sb->teardown);
		return err_no_machine(err);
	}
	start = clock_mono_us();
	leave_link(sb, ops);
	if (!spec->was_paused)
		r = ops->pause(sb->vm, err);
	fault_point("capture.paused");
	if (r == 0)
		r = write_state(sb, ops, spec, &ret->delta_bytes, err);
	if (goes_on) {
		struct err why;
		int back = let_go_on(sb, ops, &why);

		if (back < 0)
			give_up(sb, &why);
		if (back < 0 && r == 0) {
			*err = why;
			r = back;
		}
	}
	r = explain(sb, r, err);
	ret->pause_us = clock_mono_us() - start;
	pthread_mutex_unlock(&sb->teardown);
	if (r == 0)
		core_count_capture(sb->core, spec->use, ret);
	if (goes_on)
		go_on(sb);
	return r;
}

/* It may go on although its engine has said that it does not: what is called paused is captured as it is. */
static void stop_again(struct sandbox *sb, const struct engine_ops *ops)
{
	struct err why;

	leave_link(sb, ops);
	if (ops->pause(sb->vm, &why) < 0)
		give_up(sb, &why);
}

int sandbox_unpause(struct sandbox *sb, const struct engine_ops *ops, struct err *err)
{
	int r;

	pthread_mutex_lock(&sb->teardown);
	r = sb->vm ? explain(sb, let_go_on(sb, ops, err), err) : err_no_machine(err);
	if (r == 0)
		(void)sandbox_set_state(sb, SANDBOX_RUNNING); /* or FAILED meanwhile */
	else if (sb->vm)
		stop_again(sb, ops);
	pthread_mutex_unlock(&sb->teardown);
	if (r == 0)
		go_on(sb);
	return r;
}

void sandbox_put_back(struct sandbox *sb, const struct engine_ops *ops)
{
	struct err why;

	if (sandbox_unpause(sb, ops, &why) < 0) {
		give_up(sb, &why);
		(void)sandbox_set_state(sb, SANDBOX_RUNNING); /* from which it fails */
	}
}

int sandbox_pause(struct sandbox *sb, const struct engine_ops *ops, struct err *err)
{
	int r;

	pthread_mutex_lock(&sb->teardown);
	if (sb->vm)
		leave_link(sb, ops);
	r = sb->vm ? explain(sb, ops->pause(sb->vm, err), err) : err_no_machine(err);
	if (r == 0)
		(void)sandbox_set_state(sb, SANDBOX_PAUSED); /* or FAILED meanwhile */
	pthread_mutex_unlock(&sb->teardown);
	if (r < 0)
		sandbox_put_back(sb, ops);
	return r;
}

/* Takes the machine away, and leaves the folder as `hibernated` says. */
int sandbox_hibernate(struct sandbox *sb, const struct engine_ops *ops, struct err *err)
{
	_cleanup_free_ char *dir = fs_join(sb->dir, "hibernated");
	_cleanup_free_ char *disk = fs_join(sb->dir, "scratch.ext4");
	enum sandbox_state before = sandbox_state_of(sb);
	const struct capture_spec capture = {.dir = dir,
		.use = CAPTURE_HIBERNATE,
		.was_paused = before == SANDBOX_PAUSED};
	struct capture_stats stats;
	int r = fs_remove_tree(dir, err);

	if (r == 0)
		r = fs_mkdirs(dir, 0700, err);
	if (r < 0)
		return r;
	if (!sandbox_set_state(sb, SANDBOX_HIBERNATING))
		return err_set(err, ERR_CONFLICT, -EBUSY, "the sandbox is %s",
			sandbox_state_name(sandbox_state_of(sb)));
	r = sandbox_capture(sb, ops, &capture, &stats, err);
	if (r == 0)
		r = state_seal(dir, err);
	if (r == 0)
		r = fs_sync_tree(dir, err);
	/* From here on a daemon that starts after a crash wakes it from the folder. */
	fault_point("hibernate.synced");
	if (r == 0)
		r = core_note_state(sb->core, sb, SANDBOX_HIBERNATED, err);
	fault_point("hibernate.noted");
	if (r < 0) {
		(void)fs_remove_tree(dir,
			NULL); /* best effort: the next hibernation does it again */
		if (before == SANDBOX_PAUSED)
			(void)sandbox_set_state(sb, before);
		else
			sandbox_put_back(sb, ops);
		return r;
	}
	sandbox_detach(sb, false, "it was hibernated");
	fault_point("hibernate.ended");
	(void)unlink(disk); /* the copy in `hibernated` is the disk now */
	if (!sandbox_set_state(sb, SANDBOX_HIBERNATED))
		return err_set(err, ERR_SANDBOX_FAILED, -EHOSTDOWN, "the sandbox failed meanwhile");
	return 0;
}

int sandbox_wake(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	const struct template *t, struct err *err)
{
	_cleanup_free_ char *dir = fs_join(sb->dir, "hibernated");
	_cleanup_free_ char *disk = fs_join(dir, "scratch.ext4");
	_cleanup_free_ char *own_disk = fs_join(sb->dir, "scratch.ext4");
	const struct sandbox_source source = {.t = t, .state_dir = dir};
	int64_t start = clock_mono_us();
	int r;

	(void)unlink(own_disk); /* of an attempt that failed */
	r = state_check(dir, NULL, err);
	if (r == 0)
		r = fs_clone(disk, own_disk, 0600, err);
	fault_point("wake.disk");
	if (r == 0)
		r = restore(sb, hub, ops, &source, NULL, false, err);
	fault_point("wake.restored");
	if (r < 0) {
		sandbox_detach(sb, false, "it could not be woken");
		(void)sandbox_set_state(sb, SANDBOX_HIBERNATED);
		return r;
	}
	pthread_mutex_lock(&sb->lock);
	sb->boot_us = clock_mono_us() - start;
	pthread_mutex_unlock(&sb->lock);
	r = core_note_state(sb->core, sb, SANDBOX_RUNNING, err);
	fault_point("wake.noted");
	if (r < 0) {
		sandbox_detach(sb, false, "it could not be woken");
		(void)sandbox_set_state(sb, SANDBOX_HIBERNATED);
		return r;
	}
	(void)sandbox_set_state(sb, SANDBOX_RUNNING);
	(void)fs_remove_tree(dir, NULL); /* best effort: the next hibernation removes it */
	return 0;
}

int sandbox_adopt(struct sandbox *sb, struct link_hub *hub, const struct engine_ops *ops,
	struct err *err)
{
	struct vm *vm;
	int r = ops->adopt(sb->dir, &vm, err);

	if (r < 0)
		return r;
	r = attach(sb, hub, vm, err);
	if (r == 0)
		r = attach_link(sb, hub, NULL, true, err);
	if (r == 0)
		r = sandbox_adopt_network(sb, err);
	/* The earlier daemon may have died while the machine stood still for a capture. */
	if (r == 0)
		r = ops->unpause(vm, err);
	if (r == 0)
		r = set_clock(sb, sb->link, ADOPT_TIMEOUT_MS, err);
	if (r < 0 || sb->registered != SANDBOX_PAUSED)
		return r;
	leave_link(sb, ops);
	return ops->pause(vm, err);
}

void sandbox_detach(struct sandbox *sb, bool keep, const char *why)
{
	struct link *link;
	struct vm *vm;

	pthread_mutex_lock(&sb->teardown);
	sb->end_watch = link_hub_unwatch(sb->end_watch);
	sb->console_watch = link_hub_unwatch(sb->console_watch);
	sandbox_end_network(sb, keep);
	pthread_mutex_lock(&sb->lock);
	link = sb->link;
	sb->link = NULL;
	vm = sb->vm;
	sb->vm = NULL;
	pthread_mutex_unlock(&sb->lock);
	if (link) {
		link_on_dead(link, NULL, NULL);
		link_fail(link, why);
	}
	link_unref(link);
	if (vm && !keep)
		vm_kill(vm);
	vm_free(vm);
	atomic_store(&sb->ended, false);
	atomic_store(&sb->broken_ms, 0);
	pthread_mutex_unlock(&sb->teardown);
}

int64_t sandbox_check_end(struct sandbox *sb, const struct engine_ops *ops)
{
	int64_t broken_ms, look_ms = INT64_MAX;
	char why[256];
	bool over = false;

	if (pthread_mutex_trylock(&sb->teardown) != 0)
		return clock_mono_ms() + BUSY_LOOK_MS;
	broken_ms = atomic_load(&sb->broken_ms);
	if (sb->vm && atomic_load(&sb->ended)) {
		explain_end(sb, ops, why, sizeof(why));
		over = true;
	} else if (sb->vm && broken_ms > 0) {
		look_ms = broken_ms + DEATH_NOTICE_MS;
		over = look_ms <= clock_mono_ms();
		(void)snprintf(why, sizeof(why), "%s", sb->broken_why);
	}
	pthread_mutex_unlock(&sb->teardown);
	if (over)
		(void)sandbox_fail(sb, why);
	return over ? INT64_MAX : look_ms;
}
