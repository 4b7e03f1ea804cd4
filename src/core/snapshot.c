/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: captured machines that stay.
 *
 * Theory of operation
 * -------------------
 * <data>/snapshots/<id>/ is a state folder (state_dir.h): the pages that the machine had written, its device state and
 * its disk. It stands on a version of a template, which it holds (template_hold()). It is written under a hidden name,
 * its pages compressed if that is asked for (the sandbox goes on meanwhile), hashed, brought to the disk and renamed;
 * then comes its row in the registry. So a crash leaves a folder without a row, which the next start removes, and never a
 * row without a folder, unless somebody took it away: such a row is dropped.
 *
 * All of it is checked against its hashes at the first restore by a later daemon, and whenever a file was changed (its
 * ctime), or came or went (the folder's) since.
 *
 * `use` is held for reading while a machine is restored from the folder, and for writing when it is removed.
 */
#include "core/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/core_internal.h"
#include "core/state_dir.h"
#include "engine/memory_delta.h"

struct snapshot {
	atomic_uint refs;
	struct snapshot *next; /* under core->lock */
	/* Fixed, owned: */
	char *dir;
	char *id, *sandbox_id, *template, *version, *engine, *env, *network, *accel, *hash;
	int64_t created_ms, pause_us;
	unsigned int cpus;
	uint64_t memory_bytes, delta_bytes, size_bytes;

	pthread_rwlock_t use;    /* protects all below */
	pthread_mutex_t check;   /* one check at a time; protects `checked` */
	struct timespec checked; /* the latest change of its folder when the hash was right */
	bool gone;
};

static struct snapshot *snapshot_new(const struct core *core, const struct store_snapshot *row)
{
	struct snapshot *s = xnew(struct snapshot);

	atomic_init(&s->refs, 1);
	(void)pthread_rwlock_init(&s->use, NULL); /* these never fail on Linux */
	(void)pthread_mutex_init(&s->check, NULL);
	if (asprintf(&s->dir, "%s/snapshots/%s", core->data_dir, row->id) < 0)
		abort();
	s->id = xstrdup(row->id);
	s->sandbox_id = xstrdup(row->sandbox_id);
	s->template = xstrdup(row->template);
	s->version = xstrdup(row->version);
	s->engine = xstrdup(row->engine);
	s->env = xstrdup(row->env);
	s->network = xstrdup(row->network);
	s->accel = xstrdup(row->accel);
	s->hash = xstrdup(row->hash);
	s->created_ms = row->created_ms;
	s->pause_us = row->pause_us;
	s->cpus = (unsigned int)row->cpus;
	s->memory_bytes = (uint64_t)row->memory_bytes;
	s->delta_bytes = (uint64_t)row->delta_bytes;
	s->size_bytes = (uint64_t)row->size_bytes;
	return s;
}

const char *snapshot_dir(const struct snapshot *s)
{
	return s->dir;
}

static json_t *load_object(const char *text)
{
	json_t *json = json_loads(text, 0, NULL);

	return json ? json : json_object();
}

json_t *snapshot_env(const struct snapshot *s)
{
	return load_object(s->env);
}

json_t *snapshot_network(const struct snapshot *s)
{
	return load_object(s->network);
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	atomic_fetch_add(&s->refs, 1);
	return s;
}

struct snapshot *snapshot_unref(struct snapshot *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
		return NULL;
	free(s->dir);
	free(s->id);
	free(s->sandbox_id);
	free(s->template);
	free(s->version);
	free(s->engine);
	free(s->env);
	free(s->network);
	free(s->accel);
	free(s->hash);
	pthread_rwlock_destroy(&s->use);
	pthread_mutex_destroy(&s->check);
	free(s);
	return NULL;
}

void snapshot_get_info(const struct snapshot *s, struct snapshot_info *ret)
{
	*ret = (struct snapshot_info){
		.id = s->id,
		.sandbox_id = s->sandbox_id,
		.template = s->template,
		.version = s->version,
		.engine = s->engine,
		.created_ms = s->created_ms,
		.memory_bytes = s->memory_bytes,
		.delta_bytes = s->delta_bytes,
		.size_bytes = s->size_bytes,
		.pause_us = s->pause_us,
	};
}

/* ---- the list ---- */

static void add_to_list(struct core *core, struct snapshot *s)
{
	struct snapshot **at;

	pthread_mutex_lock(&core->lock);
	for (at = &core->snapshots; *at; at = &(*at)->next)
		;
	*at = snapshot_ref(s);
	pthread_mutex_unlock(&core->lock);
}

static void remove_from_list(struct core *core, struct snapshot *s)
{
	bool found = false;

	pthread_mutex_lock(&core->lock);
	for (struct snapshot **at = &core->snapshots; *at; at = &(*at)->next) {
		if (*at == s) {
			*at = s->next;
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&core->lock);
	if (found)
		snapshot_unref(s);
}

struct snapshot *core_find_snapshot(struct core *core, const char *id, struct err *err)
{
	struct snapshot *s;

	pthread_mutex_lock(&core->lock);
	for (s = core->snapshots; s && strcmp(s->id, id) != 0; s = s->next)
		;
	if (s)
		snapshot_ref(s);
	pthread_mutex_unlock(&core->lock);
	if (!s)
		(void)err_set(err, ERR_SNAPSHOT_NOT_FOUND, -ENOENT,
			"snapshot not found: it was deleted, or never was");
	return s;
}

void core_each_snapshot(struct core *core, core_each_snapshot_fn *fn, void *user)
{
	struct snapshot **all;
	unsigned int n = 0;
	int r = 0;

	pthread_mutex_lock(&core->lock);
	for (struct snapshot *s = core->snapshots; s; s = s->next)
		n++;
	all = xcalloc(n + 1, sizeof(struct snapshot *));
	n = 0;
	for (struct snapshot *s = core->snapshots; s; s = s->next)
		all[n++] = snapshot_ref(s);
	pthread_mutex_unlock(&core->lock);
	for (unsigned int i = 0; i < n; i++) {
		if (r == 0)
			r = fn(all[i], user);
		snapshot_unref(all[i]);
	}
	free(all);
}

/* ---- taking one ---- */

/* A copy of a damaged state would be hashed as if it were whole. */
static int clone_checked(const char *from, const char *to, uint64_t *ret_bytes, struct err *err)
{
	int r = state_check(from, ret_bytes, err);

	return r == 0 ? state_clone(from, to, err) : r;
}

int core_capture(struct core *core, struct sandbox *sb, const struct capture_spec *spec,
	struct capture_stats *ret, struct err *err)
{
	_cleanup_free_ char *hibernated = fs_join(sb->dir, "hibernated");
	enum sandbox_state state;
	struct capture_spec own = *spec;
	int r = fs_mkdirs(spec->dir, 0700, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->op);
	state = sandbox_state_of(sb);
	own.was_paused = state == SANDBOX_PAUSED;
	if (state == SANDBOX_RUNNING || state == SANDBOX_PAUSED)
		r = sandbox_capture(sb, core->ops, &own, ret, err);
	else if (state == SANDBOX_HIBERNATED)
		r = clone_checked(hibernated, spec->dir, &ret->delta_bytes, err);
	else
		r = err_set(err, ERR_CONFLICT, -EBUSY, "a sandbox that is %s can't be captured",
			sandbox_state_name(state));
	pthread_mutex_unlock(&sb->op);
	return r;
}

static int hold_template(struct core *core, const struct snapshot *s, struct err *err)
{
	return template_hold(core->templates, s->template, s->version, s->id, s->dir, err);
}

/* Hashes it and brings it to the disk; everything but its name. */
static int finish(const struct core *core, const char *dir, char hash[STATE_HASH_SIZE],
	struct err *err)
{
	_cleanup_free_ char *delta = fs_join(dir, "delta");
	int r = delta_seal(delta, core->compress_snapshots, err);

	fault_point("snapshot.sealed");
	if (r == 0)
		r = state_hash(dir, hash, err);
	if (r == 0)
		r = fs_sync_tree(dir, err);
	fault_point("snapshot.synced");
	return r;
}

static int put_in_place(struct core *core, const char *work, const struct snapshot *s,
	const struct store_snapshot *row, struct err *err)
{
	_cleanup_free_ char *parent = fs_join(core->data_dir, "snapshots");
	int r = 0;

	if (rename(work, s->dir) < 0)
		return err_set_errno(err, -errno, "can't rename %s", work);
	fault_point("snapshot.renamed");
	r = fs_sync_dir(parent, err);
	if (r == 0)
		r = hold_template(core, s, err);
	fault_point("snapshot.held");
	if (r == 0)
		r = store_put_snapshot(core->store, row, err);
	fault_point("snapshot.registered");
	if (r < 0) {
		(void)fs_remove_tree(s->dir, NULL); /* best effort: it has no row */
		template_release(core->templates, s->template, s->version, s->id);
	}
	return r;
}

/* The latest change of the folder and its files; of `memory` and the delta that of their contents, as these are linked
 * elsewhere. */
static int latest_change(const struct snapshot *s, struct timespec *ret, struct err *err)
{
	static const char *const names[] = {".", "devices", "scratch.ext4", "memory", "delta"};

	*ret = (struct timespec){0};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = fs_join(s->dir, names[i]);
		struct timespec at;
		struct stat st;

		if (stat(path, &st) < 0) {
			if (errno == ENOENT && i >= 3)
				continue;
			return err_set_errno(err, -errno, "can't read %s", path);
		}
		at = i >= 3 ? st.st_mtim : st.st_ctim;
		if (at.tv_sec > ret->tv_sec ||
			(at.tv_sec == ret->tv_sec && at.tv_nsec > ret->tv_nsec))
			*ret = at;
	}
	return 0;
}

int snapshot_register(struct core *core, const char *work, const struct store_snapshot *row,
	struct snapshot **ret, struct err *err)
{
	_cleanup_snapshot_ struct snapshot *s = snapshot_new(core, row);
	int r = put_in_place(core, work, s, row, err);

	if (r < 0)
		return r;
	(void)latest_change(s, &s->checked, NULL); /* who made it has hashed it just now */
	add_to_list(core, s);
	*ret = steal_ptr(&s);
	return 0;
}

static int snapshot_to(struct core *core, struct sandbox *sb, const char *id, const char *work,
	struct snapshot **ret, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	_cleanup_free_ char *env = json_dumps(sb->env, JSON_COMPACT), *network = NULL;
	json_t *policy = sandbox_network(sb, NULL);
	const struct capture_spec capture = {.dir = work, .use = CAPTURE_SNAPSHOT};
	char hash[STATE_HASH_SIZE];
	struct capture_stats stats = {0};
	struct store_snapshot row;
	int r = core_load_template(core, sb->template, sb->version, &t, err);

	network = json_dumps(policy, JSON_COMPACT);
	json_decref(policy);
	if (r == 0)
		r = core_capture(core, sb, &capture, &stats, err);
	if (r == 0)
		r = finish(core, work, hash, err);
	if (r < 0)
		return r;
	row = (struct store_snapshot){
		.id = id,
		.sandbox_id = sb->id,
		.template = sb->template,
		.version = sb->version,
		.engine = sb->engine,
		.env = env ? env : "{}",
		.network = network ? network : "{}",
		.accel = accel_name(sb->accel),
		.hash = hash,
		.created_ms = clock_real_ms(),
		.cpus = sb->cpus,
		.memory_bytes = (int64_t)sb->memory_bytes,
		.delta_bytes = (int64_t)stats.delta_bytes,
		.size_bytes = (int64_t)fs_disk_usage(work),
		.pause_us = stats.pause_us,
	};
	return snapshot_register(core, work, &row, ret, err);
}

int core_snapshot(struct core *core, struct sandbox *sb, struct snapshot **ret, struct err *err)
{
	_cleanup_free_ char *work = NULL;
	char id[SANDBOX_ID_SIZE];
	int64_t start = clock_mono_ms();
	int r;

	core_make_id(id);
	if (asprintf(&work, "%s/snapshots/.new-%s", core->data_dir, id) < 0)
		abort();
	pthread_rwlock_rdlock(&core->captures);
	r = snapshot_to(core, sb, id, work, ret, err);
	pthread_rwlock_unlock(&core->captures);
	if (r < 0) {
		(void)fs_remove_tree(work, NULL); /* best effort: the next start does it */
		log_warn("no snapshot", LOG_STR("sandbox", sb->id), LOG_STR("error", err_msg(err)));
		return r;
	}
	log_info("snapshot taken", LOG_STR("sandbox", sb->id), LOG_STR("snapshot", id),
		LOG_INT("pause_us", (*ret)->pause_us),
		LOG_INT("delta_bytes", (int64_t)(*ret)->delta_bytes),
		LOG_INT("took_ms", clock_mono_ms() - start));
	sandbox_event(sb, "snapshot.created",
		json_pack("{s:s, s:f, s:I}", "snapshot_id", id, "pause_ms",
			(double)(*ret)->pause_us / 1000, "delta_bytes",
			(json_int_t)(*ret)->delta_bytes));
	return 0;
}

/* ---- restoring from one ---- */

static int check_hash(struct snapshot *s, struct err *err)
{
	struct timespec changed;
	int r;

	pthread_mutex_lock(&s->check);
	r = latest_change(s, &changed, err);
	if (r == 0 &&
		(changed.tv_sec != s->checked.tv_sec || changed.tv_nsec != s->checked.tv_nsec)) {
		r = state_verify(s->dir, s->hash, NULL, err);
		if (r == 0)
			s->checked = changed;
	}
	pthread_mutex_unlock(&s->check);
	return r;
}

int snapshot_source(struct core *core, struct snapshot *s, struct sandbox_source *ret,
	struct template **ret_template, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	int r = core_load_template(core, s->template, s->version, &t, err);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&s->use);
	if (s->gone)
		r = err_set(err, ERR_SNAPSHOT_NOT_FOUND, -ENOENT,
			"snapshot not found: it was deleted");
	if (r == 0)
		r = check_hash(s, err);
	if (r < 0) {
		pthread_rwlock_unlock(&s->use);
		return r;
	}
	*ret = (struct sandbox_source){.t = t, .state_dir = s->dir};
	*ret_template = steal_ptr(&t);
	return 0;
}

void snapshot_source_done(struct snapshot *s)
{
	pthread_rwlock_unlock(&s->use);
}

/* ---- removing ---- */

int core_delete_snapshot(struct core *core, struct snapshot *s, struct err *err)
{
	int r = store_delete_snapshot(core->store, s->id, err);

	if (r < 0)
		return r;
	fault_point("snapshot.forgotten");
	remove_from_list(core, s);
	pthread_rwlock_wrlock(&s->use);
	s->gone = true;
	r = fs_remove_tree(s->dir, err);
	pthread_rwlock_unlock(&s->use);
	template_release(core->templates, s->template, s->version, s->id);
	if (r == 0)
		log_info("snapshot deleted", LOG_STR("snapshot", s->id));
	return r;
}

/* ---- at the start ---- */

static int remember_row(const struct store_snapshot *row, void *user)
{
	struct core *core = user;
	struct snapshot *s = snapshot_new(core, row);

	add_to_list(core, s);
	snapshot_unref(s);
	return 0;
}

static int drop_if_lost(struct snapshot *s, void *user)
{
	struct core *core = user;
	struct err err;

	if (access(s->dir, F_OK) == 0) {
		/* Names in the templates' folder may be younger than the registry, and lost. */
		if (hold_template(core, s, &err) < 0)
			log_warn("can't hold a template", LOG_STR("error", err_msg(&err)));
		return 0;
	}
	log_warn("a snapshot's folder is gone: it is forgotten", LOG_STR("snapshot", s->id));
	if (core_delete_snapshot(core, s, &err) < 0)
		log_warn("can't forget a snapshot", LOG_STR("error", err_msg(&err)));
	return 0;
}

int snapshots_sweep(struct core *core, core_gc_fn *removed, void *user, struct err *err)
{
	_cleanup_free_ char *path = fs_join(core->data_dir, "snapshots");
	DIR *dir = opendir(path);
	const struct dirent *e;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", path);
	while ((e = readdir(dir))) {
		_cleanup_free_ char *entry = fs_join(path, e->d_name);
		struct snapshot *s;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		s = core_find_snapshot(core, e->d_name, NULL);
		if (!s)
			gc_remove("snapshot", e->d_name, entry, removed, user);
		snapshot_unref(s);
	}
	(void)closedir(dir);
	core_each_snapshot(core, drop_if_lost, core);
	return 0;
}

int snapshots_open(struct core *core, struct err *err)
{
	_cleanup_free_ char *snapshots = fs_join(core->data_dir, "snapshots");
	_cleanup_free_ char *forks = fs_join(core->data_dir, "forks");
	_cleanup_free_ char *imports = fs_join(core->data_dir, "imports");
	int r = fs_mkdirs(snapshots, 0700, err);

	if (r == 0)
		r = fs_remove_tree(forks, err); /* of forks under way */
	if (r == 0)
		r = fs_mkdirs(forks, 0700, err);
	if (r == 0)
		r = fs_remove_tree(imports, err);
	if (r == 0)
		r = store_each_snapshot(core->store, remember_row, core, err);
	if (r == 0)
		r = snapshots_sweep(core, NULL, NULL, err);
	return r;
}

void snapshots_close(struct core *core)
{
	while (core->snapshots)
		remove_from_list(core, core->snapshots);
}
