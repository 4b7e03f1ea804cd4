/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of sandboxes.
 *
 * Theory of operation
 * -------------------
 * The list is the truth while the daemon runs; the store has what a later daemon needs to take over.
 * A row is written when a sandbox becomes RUNNING and removed first when it is deleted, so a folder without a
 * row is what a daemon left that died in the middle of a create or a delete: the next start removes it, machine
 * included.
 *
 * `lock` is a leaf: nothing else is taken or waited for while it is held.
 */
#include "core/core.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/adopt.h"
#include "core/core_internal.h"

enum { VERSION_TRIES = 3 };

/* ---- the list ---- */

static int add_to_list(struct core *core, struct sandbox *sb, struct sandbox **ret_same,
	struct err *err)
{
	struct sandbox **at;
	int r = 0;

	pthread_mutex_lock(&core->lock);
	for (at = &core->first; *at; at = &(*at)->next) {
		if (sb->idempotency_key && (*at)->idempotency_key &&
			strcmp(sb->idempotency_key, (*at)->idempotency_key) == 0) {
			*ret_same = sandbox_ref(*at);
			r = -EEXIST;
			break;
		}
	}
	if (r == 0 && core->n >= LIMIT_SANDBOXES)
		r = err_set(err, ERR_TOO_MANY, -EDQUOT,
			"there are %d sandboxes already; delete some", LIMIT_SANDBOXES);
	if (r == 0) {
		*at = sandbox_ref(sb);
		core->n++;
	}
	pthread_mutex_unlock(&core->lock);
	return r;
}

static void remove_from_list(struct core *core, struct sandbox *sb)
{
	pthread_mutex_lock(&core->lock);
	for (struct sandbox **at = &core->first; *at; at = &(*at)->next) {
		if (*at == sb) {
			*at = sb->next;
			core->n--;
			break;
		}
	}
	pthread_mutex_unlock(&core->lock);
	sandbox_unref(sb);
}

struct sandbox *core_find(struct core *core, const char *id, struct err *err)
{
	struct sandbox *sb;

	pthread_mutex_lock(&core->lock);
	for (sb = core->first; sb && strcmp(sb->id, id) != 0; sb = sb->next)
		;
	if (sb)
		sandbox_ref(sb);
	pthread_mutex_unlock(&core->lock);
	if (!sb)
		(void)err_set(err, ERR_SANDBOX_NOT_FOUND, -ENOENT,
			"sandbox not found: it was deleted, has expired, or never was");
	return sb;
}

/* All sandboxes with a reference each; to be freed by free_array(). */
static struct sandbox **snapshot_list(struct core *core, unsigned int *ret_n)
{
	struct sandbox **all;
	unsigned int n = 0;

	pthread_mutex_lock(&core->lock);
	all = xcalloc(core->n + 1, sizeof(struct sandbox *));
	for (struct sandbox *sb = core->first; sb; sb = sb->next)
		all[n++] = sandbox_ref(sb);
	pthread_mutex_unlock(&core->lock);
	*ret_n = n;
	return all;
}

static void free_array(struct sandbox **all, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sandbox_unref(all[i]);
	free(all);
}

void core_each(struct core *core, core_each_fn *fn, void *user)
{
	unsigned int n;
	struct sandbox **all = snapshot_list(core, &n);

	for (unsigned int i = 0; i < n; i++) {
		if (fn(all[i], user))
			break;
	}
	free_array(all, n);
}

/* ---- create and delete ---- */

/*
 * Ends the machine and removes all that belongs to a sandbox, which is STOPPING. The row goes first: whoever
 * starts after a crash in between removes the rest. Best effort.
 */
static void take_apart(struct core *core, struct sandbox *sb)
{
	struct err err = {0};
	int r = store_delete_sandbox(core->store, sb->id, &err);

	sandbox_detach(sb, false, "it was deleted");
	template_release(core->templates, sb->template, sb->version, sb->id);
	if (fs_remove_tree(sb->dir, &err) < 0)
		log_warn("can't remove a sandbox's folder", LOG_STR("sandbox", sb->id),
			LOG_STR("error", err_msg(&err)));
	if (r < 0) /* a full disk has room now */
		r = store_delete_sandbox(core->store, sb->id, &err);
	if (r < 0)
		log_warn("can't forget a sandbox", LOG_STR("sandbox", sb->id),
			LOG_STR("error", err_msg(&err)));
	remove_from_list(core, sb);
	(void)sandbox_set_state(sb, SANDBOX_DELETED);
	sandbox_event(sb, "sandbox.deleted",
		json_pack("{s:I}", "lifetime_seconds",
			(json_int_t)(clock_real_ms() - sb->created_ms) / 1000));
	event_log_close(sb->events);
	console_close(&sb->console);
}

static int put_row(struct core *core, struct sandbox *sb, struct err *err)
{
	_cleanup_free_ char *metadata = json_dumps(sb->metadata, JSON_COMPACT);
	_cleanup_free_ char *env = json_dumps(sb->env, JSON_COMPACT);
	_cleanup_free_ char *network = json_dumps(sb->network, JSON_COMPACT);
	const struct store_sandbox row = {
		.id = sb->id,
		.template = sb->template,
		.version = sb->version,
		.engine = sb->engine,
		.metadata = metadata,
		.env = env,
		.network = network,
		.idempotency_key = sb->idempotency_key,
		.created_ms = sb->created_ms,
		.ttl_seconds = atomic_load(&sb->ttl_seconds),
		.boot_ms = sb->boot_us / 1000,
		.accel = accel_name(sb->accel),
		.cpus = sb->cpus,
		.memory_bytes = (int64_t)sb->memory_bytes,
		.state = sandbox_state_name(SANDBOX_RUNNING),
		.persistent = atomic_load(&sb->persistent),
		.idle_seconds = atomic_load(&sb->idle_seconds),
		.parent = sb->parent,
		.from_snapshot = sb->from_snapshot,
		.boot_mode = boot_mode_name(sb->boot_mode),
	};

	if (!metadata || !env || !network)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return store_put_sandbox(core->store, &row, err);
}

static void count_create(struct core *core, const struct sandbox *sb, bool ok)
{
	pthread_mutex_lock(&core->lock);
	if (ok)
		core->stats.created++;
	else
		core->stats.failed++;
	pthread_mutex_unlock(&core->lock);
	if (ok)
		core_count_boot(core, sb->boot_mode, sb->boot_us);
}

int core_load_template(struct core *core, const char *name, const char *version,
	struct template **ret, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	int r = version ? template_load_version(core->templates, name, version, &t, err)
			: template_load(core->templates, name, &t, err);

	if (r < 0)
		return r;
	r = template_check_engine(t, &core->engine, err);
	if (r < 0)
		return version ? err_wrap(err, "what was captured goes on only where it was made")
			       : r;
	*ret = steal_ptr(&t);
	return 0;
}

/* An earlier create with the same key made it, or is about to. */
static int give_same(struct sandbox *same, struct sandbox **ret, struct err *err)
{
	enum sandbox_state state;

	sandbox_wait_created(same);
	state = sandbox_state_of(same);
	if (state == SANDBOX_STOPPING || state == SANDBOX_DELETED) {
		sandbox_unref(same);
		return err_set(err, ERR_CONFLICT, -EALREADY,
			"the create with the same Idempotency-Key failed; use a new key");
	}
	*ret = same;
	return 0;
}

/* Only a template's own state is waiting warm. */
static struct spare *take_spare(struct core *core, const struct sandbox_source *source)
{
	struct spare *spare = NULL;

	if (!source->state_dir)
		spare = pool_take(core->pool, POOL_WARM, source->t);
	if (!spare && sandbox_source_fits_spare(source))
		spare = pool_take(core->pool, POOL_PRESPAWN, source->t);
	return spare;
}

static int boot(struct core *core, struct sandbox *sb, const struct sandbox_source *source,
	struct err *err)
{
	struct spare *spare = take_spare(core, source);
	int r = -EAGAIN;

	if (spare) {
		r = sandbox_boot(sb, core->hub, core->ops, source, spare, err);
		spare_free(spare);
		if (r < 0) { /* nobody needs to know: it may have died while it waited */
			log_debug("a spare machine was of no use", LOG_STR("sandbox", sb->id),
				LOG_STR("error", err_msg(err)));
			sandbox_detach(sb, false, "its machine is replaced");
			(void)fs_remove_tree(sb->dir, NULL); /* what is left fails the mkdir() */
		}
	}
	return r < 0 ? sandbox_boot(sb, core->hub, core->ops, source, NULL, err) : r;
}

int core_hold_template(struct core *core, const struct sandbox *sb, struct err *err)
{
	return template_hold(core->templates, sb->template, sb->version, sb->id, sb->dir, err);
}

int core_launch(struct core *core, struct sandbox *sb, const struct sandbox_source *source,
	struct sandbox **ret_same, struct err *err)
{
	int r = add_to_list(core, sb, ret_same, err);

	if (r < 0)
		return r;
	pool_pause(core->pool);
	r = boot(core, sb, source, err);
	if (r == 0)
		r = put_row(core, sb, err);
	pool_resume(core->pool);
	count_create(core, sb, r == 0);
	sandbox_touch(sb); /* the start does not count */
	/* A delete that came meanwhile waits for us, so the state is still CREATING. */
	(void)sandbox_set_state(sb, r == 0 ? SANDBOX_RUNNING : SANDBOX_STOPPING);
	if (r < 0) {
		take_apart(core, sb);
		log_warn("sandbox not created", LOG_STR("sandbox", sb->id),
			LOG_STR("template", sb->template), LOG_STR("error", err_msg(err)));
		return r;
	}
	log_info("sandbox created", LOG_STR("sandbox", sb->id), LOG_STR("template", sb->template),
		LOG_INT("boot_ms", sb->boot_us / 1000),
		LOG_STR("boot_mode", boot_mode_name(sb->boot_mode)), LOG_STR("engine", sb->engine),
		LOG_STR("accel", accel_name(sb->accel)));
	sandbox_event(sb, "sandbox.running",
		json_pack("{s:s, s:I, s:s, s:s*, s:s*}", "template", sb->template, "boot_ms",
			(json_int_t)(sb->boot_us / 1000), "boot_mode",
			boot_mode_name(sb->boot_mode), "from_snapshot", sb->from_snapshot, "parent",
			sb->parent));
	return 0;
}

static int create_from(struct core *core, const struct sandbox_spec *spec,
	const struct sandbox_source *source, struct sandbox **ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb =
		sandbox_new(core, core->data_dir, source->t, spec, &core->engine);
	struct sandbox *same = NULL;
	int r = core_launch(core, sb, source, &same, err);

	if (same)
		return give_same(same, ret, err);
	if (r == 0)
		*ret = steal_ptr(&sb);
	return r;
}

/*
 * With an engine whose machines have no network card: refuses a way out that is asked for; one that nobody asked for is
 * `none` (*ret_none, the caller's), which the sandbox says.
 */
static int fit_network(struct core *core, const struct sandbox_spec *asked,
	struct sandbox_spec *spec, json_t **ret_none, struct err *err)
{
	struct err why;
	int r = engine_require(&core->engine, "network", &why);

	if (r == 0 || (spec->network && !egress_is_open(spec->network)))
		return 0;
	if (asked->network) {
		*err = why;
		return r;
	}
	spec->network = *ret_none = json_pack("{s:s}", "egress", "none");
	return 0;
}

static int create_from_template(struct core *core, const struct sandbox_spec *spec,
	struct sandbox **ret, struct err *err)
{
	int r = -ESTALE;

	/* A build that ends just then removes the version that we have found, for there is a newer one. */
	for (int i = 0; r == -ESTALE && i < VERSION_TRIES; i++) {
		_cleanup_template_ struct template *t = NULL;
		struct sandbox_spec own = *spec;
		struct sandbox_source source = {0};
		json_t *none = NULL;

		r = core_load_template(core, spec->template, NULL, &t, err);
		if (r < 0)
			return r;
		source.t = t;
		if (!own.network)
			own.network = t->network;
		r = fit_network(core, spec, &own, &none, err);
		if (r == 0)
			r = create_from(core, &own, &source, ret, err);
		json_decref(none);
	}
	return r;
}

static int create_from_snapshot(struct core *core, const struct sandbox_spec *spec,
	struct sandbox **ret, struct err *err)
{
	_cleanup_snapshot_ struct snapshot *snapshot =
		core_find_snapshot(core, spec->from_snapshot, err);
	_cleanup_template_ struct template *t = NULL;
	struct sandbox_spec own = *spec;
	struct sandbox_source source;
	json_t *env, *network;
	int r;

	if (!snapshot)
		return err->os;
	r = snapshot_source(core, snapshot, &source, &t, err);
	if (r < 0)
		return r;
	own.env = env = snapshot_env(snapshot);
	network = snapshot_network(snapshot);
	if (!own.network)
		own.network = network;
	r = create_from(core, &own, &source, ret, err);
	json_decref(env);
	json_decref(network);
	snapshot_source_done(snapshot);
	return r;
}

int core_create(struct core *core, const struct sandbox_spec *spec, struct sandbox **ret,
	struct err *err)
{
	return spec->from_snapshot ? create_from_snapshot(core, spec, ret, err)
				   : create_from_template(core, spec, ret, err);
}

struct sandbox *core_find_by_key(struct core *core, const char *key)
{
	struct sandbox *found = NULL;

	pthread_mutex_lock(&core->lock);
	for (struct sandbox *sb = core->first; sb && !found; sb = sb->next) {
		if (sb->idempotency_key && strcmp(sb->idempotency_key, key) == 0)
			found = sandbox_ref(sb);
	}
	pthread_mutex_unlock(&core->lock);
	if (found)
		sandbox_wait_created(found);
	return found;
}

int core_delete(struct core *core, struct sandbox *sb, struct err *err)
{
	bool ours;

	sandbox_wait_created(sb);
	pthread_mutex_lock(&sb->op);
	ours = sandbox_set_state(sb, SANDBOX_STOPPING);
	pthread_mutex_unlock(&sb->op);
	if (!ours) {
		sandbox_wait_deleted(sb);
		return 0;
	}
	take_apart(core, sb);
	pthread_mutex_lock(&core->lock);
	core->stats.deleted++;
	pthread_mutex_unlock(&core->lock);
	log_info("sandbox deleted", LOG_STR("sandbox", sb->id));
	return 0;
}

int core_note_state(struct core *core, struct sandbox *sb, enum sandbox_state state,
	struct err *err)
{
	return store_set_state(core->store, sb->id, sandbox_state_name(state),
		state == SANDBOX_HIBERNATED, err);
}

void core_note_failure(struct core *core, struct sandbox *sb)
{
	struct err err = {0};

	pthread_mutex_lock(&core->lock);
	core->stats.failed++;
	pthread_mutex_unlock(&core->lock);
	if (store_set_failure(core->store, sb->id, sb->failure, &err) < 0)
		log_warn("can't note a failure", LOG_STR("sandbox", sb->id),
			LOG_STR("error", err_msg(&err)));
}

/* ---- start and end ---- */

static int pick_engine(struct core *core, const char *wanted, struct err *err)
{
	int r = engine_pick(wanted, &core->ops, &core->engine, err);

	if (r < 0)
		return r;
	log_info("engine chosen", LOG_STR("engine", core->engine.name),
		LOG_STR("isolation", core->engine.isolation),
		LOG_STR("accel", accel_name(core->engine.accel)),
		LOG_STR("version", core->engine.version), LOG_STR("why", core->engine.why));
	return 0;
}

static int lock_data_dir(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = fs_join(core->data_dir, "lock");

	core->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (core->lock_fd < 0)
		return err_set_errno(err, -errno, "can't open %s", path);
	if (flock(core->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, ERR_CONFLICT, -EBUSY,
			"another pandastack uses %s: stop it, or choose another --data-dir",
			core->data_dir);
	return 0;
}

static int remember_row(const struct store_sandbox *row, void *user)
{
	struct core *core = user;
	struct sandbox *sb = sandbox_from_row(core, core->data_dir, row, &core->engine);
	struct sandbox *same;
	struct err err;

	(void)add_to_list(core, sb, &same, NULL); /* keys are unique in the table */
	/* Names in the templates' folder may be younger than the registry, and lost. */
	if (core_hold_template(core, sb, &err) < 0)
		log_warn("can't hold a template", LOG_STR("sandbox", sb->id),
			LOG_STR("error", err_msg(&err)));
	sandbox_unref(sb);
	return 0;
}

/* Removes the folder of a sandbox that is in no row, and its machine if that runs. */
static void remove_orphan(struct core *core, const char *id)
{
	_cleanup_free_ char *dir = NULL;
	struct err err = {0};

	if (asprintf(&dir, "%s/sandboxes/%s", core->data_dir, id) < 0)
		abort();
	core->ops->kill_left(dir);
	if (fs_remove_tree(dir, &err) < 0)
		log_warn("can't remove a folder", LOG_STR("error", err_msg(&err)));
	else
		log_info("removed what was left of a sandbox", LOG_STR("sandbox", id));
}

static int remove_orphans(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = fs_join(core->data_dir, "sandboxes");
	DIR *dir = opendir(path);
	struct dirent *e;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", path);
	while ((e = readdir(dir))) {
		struct sandbox *sb;

		if (e->d_name[0] == '.')
			continue;
		sb = core_find(core, e->d_name, NULL);
		if (!sb)
			remove_orphan(core, e->d_name);
		sandbox_unref(sb);
	}
	(void)closedir(dir);
	return 0;
}

static int open_pool(struct core *core, const struct core_config *config, struct err *err)
{
	struct pool_config pool = {.data_dir = core->data_dir,
		.ops = core->ops,
		.engine = &core->engine,
		.templates = core->templates,
		.hub = core->hub};

	memcpy(pool.sizes, config->pool_sizes, sizeof(pool.sizes));
	return pool_new(&pool, &core->pool, err);
}

/* All that can fail at the start. */
static int open_all(struct core *core, const struct core_config *config, struct err *err)
{
	_cleanup_free_ char *db = fs_join(core->data_dir, "registry.db");
	_cleanup_free_ char *sandboxes = fs_join(core->data_dir, "sandboxes");
	int r = fs_mkdirs(sandboxes, 0700, err);

	if (r == 0)
		r = lock_data_dir(core, err);
	if (r == 0)
		r = egress_check_host(&config->egress, err);
	if (r == 0)
		r = pick_engine(core, config->engine, err);
	if (r == 0)
		r = template_set_new(config->template_dir, &core->templates, err);
	if (r == 0)
		r = store_open(db, &core->store, err);
	if (r == 0)
		r = link_hub_new(&core->hub, err);
	if (r == 0)
		r = store_each_sandbox(core->store, remember_row, core, err);
	if (r == 0)
		r = remove_orphans(core, err);
	if (r == 0)
		r = snapshots_open(core, err);
	if (r < 0)
		return r;
	adopt_all(core, core->hub, core->ops);
	r = open_pool(core, config, err);
	if (r < 0)
		return r;
	return keepers_start(core, err);
}

int core_new(const struct core_config *config, struct core **ret, struct err *err)
{
	struct core *core = xnew(struct core);
	pthread_condattr_t attr;
	int r;

	core->lock_fd = -1;
	core->compress_snapshots = config->compress_snapshots;
	core->egress_host = config->egress;
	core->data_dir = xstrdup(config->data_dir);
	(void)pthread_mutex_init(&core->lock, NULL); /* these never fail on Linux */
	(void)pthread_rwlock_init(&core->captures, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&core->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	r = open_all(core, config, err);
	if (r < 0) {
		core_free(core, true);
		return r;
	}
	*ret = core;
	return 0;
}

/* Lets the machine run on, but forgets the handle. After a start that failed some are still CREATING. */
static int let_go(struct sandbox *sb, void *user)
{
	struct core *core = user;

	sandbox_detach(sb, true, "the daemon ends");
	remove_from_list(core, sb);
	return 0;
}

/* What is hibernated, or persistent and so made to be, is there for the next daemon; all else ends. */
static int end_one(struct sandbox *sb, void *user)
{
	struct core *core = user;
	bool persistent = atomic_load(&sb->persistent);
	struct err err;

	if (sandbox_state_of(sb) == SANDBOX_HIBERNATED ||
		(persistent && core_hibernate(core, sb, &err) == 0))
		return let_go(sb, core);
	if (persistent && sandbox_has_machine(sandbox_state_of(sb))) {
		log_warn("can't hibernate a sandbox: its machine runs on, for the next daemon",
			LOG_STR("sandbox", sb->id), LOG_STR("error", err_msg(&err)));
		return let_go(sb, core);
	}
	(void)core_delete(core, sb, NULL); /* always ends with it gone */
	return 0;
}

struct core *core_free(struct core *core, bool keep)
{
	if (!core)
		return NULL;
	keepers_stop(core);
	core->pool = pool_free(core->pool);
	core_each(core, keep ? let_go : end_one, core);
	snapshots_close(core);
	link_hub_free(core->hub);
	store_close(core->store);
	template_set_free(core->templates);
	cleanup_close(&core->lock_fd);
	pthread_mutex_destroy(&core->lock);
	pthread_rwlock_destroy(&core->captures);
	pthread_cond_destroy(&core->wake);
	free(core->data_dir);
	free(core);
	return NULL;
}

struct template_set *core_templates(struct core *core)
{
	return core->templates;
}

int core_remove_template(struct core *core, const char *name, bool force, uint64_t *ret_kept,
	struct err *err)
{
	int r = template_remove(core->templates, name, force, ret_kept, err);

	if (r == 0)
		pool_look(core->pool);
	return r;
}

const struct engine_info *core_engine(struct core *core)
{
	return &core->engine;
}

struct store *core_store(struct core *core)
{
	return core->store;
}
