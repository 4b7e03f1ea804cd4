/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots that go to another machine and come from one.
 *
 * Theory of operation
 * -------------------
 * A template is built on each machine, and its memory is that of a boot there: pages that differ from it mean nothing
 * elsewhere. So an export holds the whole memory (what is zeros takes nothing, and zstd sees to the rest); what the
 * receiver must have is the template's read-only file system, which is the same wherever the same definition was built:
 * its hash is in the manifest. And its engine and processor must be the same, as for a template.
 *
 * An import lies in <data>/imports until it is whole; the start removes what a crash left there. It is an upload of
 * somebody who has a key, yet nothing in it is trusted: state_file.c checks the frame, check_manifest() the rest. The
 * device state is the engine's to read: an evil one may take over the engine's process, as an evil guest may, and has
 * the same walls around it then.
 */
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "core/core_internal.h"
#include "core/state_dir.h"

enum {
	FORMAT = 2,
	DEVICES_BYTES_MAX = 16 << 20, /* a device state takes 0.2 MB */
	VERSION_CHARS_MAX = 64,
};

/* ---- export ---- */

static int open_member(const char *dir, enum state_member m, int *ret, struct err *err)
{
	_cleanup_free_ char *path = fs_join(dir, state_member_name(m));

	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_set_errno(err, -errno, "can't open %s", path) : 0;
}

static int link_into(const char *from_dir, const char *to_dir, const char *name, struct err *err)
{
	_cleanup_free_ char *from = fs_join(from_dir, name), *to = fs_join(to_dir, name);

	return link(from, to) < 0 && errno != ENOENT
		? err_set_errno(err, -errno, "can't link %s", from)
		: 0;
}

/* The whole memory, as a file that has no name any more. */
static int open_memory(struct core *core, const struct sandbox_source *source, int *ret,
	struct err *err)
{
	_cleanup_free_ char *delta = fs_join(source->state_dir, "delta"), *dir = NULL;
	_cleanup_free_ char *base = fs_join(source->t->image.dir, "memory");
	char id[SANDBOX_ID_SIZE];
	int r;

	if (access(delta, F_OK) < 0) /* one that was imported */
		return open_member(source->state_dir, STATE_MEMORY, ret, err);
	core_make_id(id);
	if (asprintf(&dir, "%s/forks/%s", core->data_dir, id) < 0)
		abort();
	r = fs_mkdirs(dir, 0700, err);
	if (r == 0)
		r = link_into(source->state_dir, dir, "delta", err);
	if (r == 0)
		r = link_into(source->state_dir, dir, "memory", err);
	if (r == 0)
		r = state_flatten(dir, base, source->t->image.memory_bytes, err);
	if (r == 0)
		r = open_member(dir, STATE_MEMORY, ret, err);
	(void)fs_remove_tree(dir, NULL); /* best effort: the next start does it */
	return r;
}

static int root_hash(const struct template *t, char ret[STATE_HASH_SIZE], struct err *err)
{
	_cleanup_free_ char *path = fs_join(t->image.dir, "rootfs.ext4");

	return state_hash_file(path, ret, err);
}

static json_t *make_manifest(const struct core *core, const struct snapshot *s,
	const struct template *t, const char *root)
{
	const struct machine_image *image = &t->image;
	struct snapshot_info info;
	json_t *m;

	snapshot_get_info(s, &info);
	m = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o, s:o}",
		"format", FORMAT, "sandbox_id", info.sandbox_id, "template", info.template,
		"version", info.version, "rootfs", root, "engine", core->engine.name,
		"engine_version", core->engine.version, "accel", accel_name(image->accel),
		"cpu_model", image->cpu_model, "cpus", (int)image->cpus, "memory_bytes",
		(json_int_t)image->memory_bytes, "tsc_khz", (json_int_t)image->tsc_khz,
		"created_ms", (json_int_t)info.created_ms, "pause_us", (json_int_t)info.pause_us,
		"env", snapshot_env(s), "network", snapshot_network(s));
	if (image->accel == ACCEL_KVM)
		(void)json_object_set_new(m, "cpu", guest_cpu_to_json(&core->engine.cpu));
	return m;
}

static int export_from(struct core *core, struct snapshot *s, const struct sandbox_source *source,
	struct state_writer **ret, struct err *err)
{
	int fds[_STATE_MEMBER_MAX] = {-1, -1, -1};
	char root[STATE_HASH_SIZE];
	json_t *manifest;
	int r = root_hash(source->t, root, err);

	if (r == 0)
		r = open_member(source->state_dir, STATE_DEVICES, &fds[STATE_DEVICES], err);
	if (r == 0)
		r = open_member(source->state_dir, STATE_DISK, &fds[STATE_DISK], err);
	if (r == 0)
		r = open_memory(core, source, &fds[STATE_MEMORY], err);
	if (r == 0) {
		manifest = make_manifest(core, s, source->t, root);
		r = state_writer_new(manifest, fds, ret, err);
		json_decref(manifest);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cleanup_close(&fds[i]);
	return r;
}

int core_export_snapshot(struct core *core, struct snapshot *s, struct state_writer **ret,
	struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	struct sandbox_source source;
	int r;

	pthread_rwlock_rdlock(&core->captures);
	r = snapshot_source(core, s, &source, &t, err);
	if (r == 0) {
		r = export_from(core, s, &source, ret, err);
		snapshot_source_done(s);
	}
	pthread_rwlock_unlock(&core->captures);
	return r;
}

/* ---- import ---- */

struct snapshot_import {
	struct core *core; /* borrowed */
	struct state_reader *reader;
	struct template *t; /* which it will stand on; NULL until the manifest is there */
	json_t *manifest;   /* checked */
	char id[SANDBOX_ID_SIZE];
	char *dir; /* removed at the end */
	int fds[_STATE_MEMBER_MAX];
};

static const char *text(const json_t *m, const char *key)
{
	const char *s = json_string_value(json_object_get(m, key));

	return s ? s : "";
}

static int64_t number(const json_t *m, const char *key)
{
	return json_integer_value(json_object_get(m, key)); /* 0 where there is none */
}

static int err_other(struct err *err, const char *what, const char *theirs, const char *ours)
{
	char shown[64];

	return err_set(err, ERR_CONFLICT, -EXDEV,
		"this snapshot can't run here: it was taken with %s %s, and this is %s", what,
		str_printable(shown, sizeof(shown), theirs, strlen(theirs)), ours);
}

/* The host's own, which a guest under hardware virtualisation has seen. */
static int check_cpu(const struct engine_info *engine, const json_t *m, struct err *err)
{
	struct guest_cpu cpu;
	char why[GUEST_CPU_WHY_SIZE];

	if (strcmp(text(m, "accel"), accel_name(ACCEL_KVM)) != 0)
		return 0;
	if (engine->accel != ACCEL_KVM)
		return err_other(err, "acceleration", text(m, "accel"), accel_name(engine->accel));
	if (guest_cpu_from_json(json_object_get(m, "cpu"), &cpu) < 0)
		return err_set(err, ERR_INVALID, -EPROTO,
			"this is no snapshot file: its manifest names no processor");
	if (!guest_cpu_fits(&cpu, &engine->cpu, why))
		return err_set(err, ERR_CONFLICT, -EXDEV,
			"this snapshot can't run here: it was taken on %s", why);
	return 0;
}

static int check_engine(const struct engine_info *engine, const json_t *m, struct err *err)
{
	uint64_t tsc = (uint64_t)MAX(number(m, "tsc_khz"), (int64_t)0), host = engine->tsc_khz;

	if (strcmp(text(m, "engine"), engine->name) != 0)
		return err_other(err, "engine", text(m, "engine"), engine->name);
	if (strcmp(text(m, "engine_version"), engine->version) != 0)
		return err_other(err, engine->name, text(m, "engine_version"), engine->version);
	/* As template_check_engine(). */
	if (tsc && host && (tsc < host - host / 1000 || tsc > host + host / 1000))
		return err_set(err, ERR_CONFLICT, -EXDEV,
			"this snapshot can't run here: the clock of the machine that it was taken on "
			"ticks at another rate (%llu kHz, here %llu kHz)",
			(unsigned long long)tsc, (unsigned long long)host);
	return check_cpu(engine, m, err);
}

static int check_machine(const struct machine_image *image, const json_t *m,
	const uint64_t sizes[_STATE_MEMBER_MAX], struct err *err)
{
	if (strcmp(text(m, "accel"), accel_name(image->accel)) != 0)
		return err_other(err, "acceleration", text(m, "accel"), accel_name(image->accel));
	if (strcmp(text(m, "cpu_model"), image->cpu_model) != 0)
		return err_other(err, "processor", text(m, "cpu_model"), image->cpu_model);
	if (number(m, "cpus") != image->cpus ||
		number(m, "memory_bytes") != (int64_t)image->memory_bytes ||
		sizes[STATE_MEMORY] != image->memory_bytes)
		return err_set(err, ERR_CONFLICT, -EXDEV,
			"this snapshot can't run here: it has other processors or another memory "
			"than machines of its template here");
	return 0;
}

/* A map of strings such as a sandbox is created with. */
static bool env_ok(const json_t *env)
{
	const char *key;
	json_t *value;

	if (!json_is_object(env) || json_object_size(env) > LIMIT_ENV_ENTRIES)
		return false;
	json_object_foreach((json_t *)(uintptr_t)env, key, value) {
		if (!*key || strchr(key, '=') || !json_is_string(value))
			return false;
	}
	return true;
}

static bool all_of(const char *s, const char *allowed, size_t max)
{
	size_t len = strlen(s);

	return len > 0 && len <= max && strspn(s, allowed) == len;
}

static int check_manifest(const json_t *m, const uint64_t sizes[_STATE_MEMBER_MAX], struct err *err)
{
	if (number(m, "format") != FORMAT)
		return err_set(err, ERR_INVALID, -EPROTO,
			"this snapshot file was written by another version of pandastack");
	if (!template_name_ok(text(m, "template")) ||
		!all_of(text(m, "version"), "0123456789abcdef", VERSION_CHARS_MAX) ||
		!all_of(text(m, "sandbox_id"), "0123456789abcdef-", SANDBOX_ID_SIZE - 1) ||
		!env_ok(json_object_get(m, "env")) ||
		egress_check(json_object_get(m, "network"), NULL) < 0 ||
		number(m, "created_ms") < 0 || number(m, "pause_us") < 0 ||
		sizes[STATE_DEVICES] > DEVICES_BYTES_MAX)
		return err_set(err, ERR_INVALID, -EPROTO,
			"this is no snapshot file: its manifest is wrong");
	return 0;
}

/* That version of the template, or the current one: what counts is the file system in it. */
static int find_template(struct core *core, const json_t *m, struct template **ret, struct err *err)
{
	const char *name = text(m, "template"), *version = text(m, "version");
	_cleanup_template_ struct template *t = NULL;
	char root[STATE_HASH_SIZE];
	int r = core_load_template(core, name, version, &t, NULL);

	if (r < 0)
		r = template_get(core->templates, name, &t, NULL);
	if (r == 0)
		r = template_check_engine(t, &core->engine, NULL);
	if (r < 0)
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"this snapshot stands on template %s, which is not here or can't be used: run "
			"`pandastack template build %s`, then import it again",
			name, name);
	r = root_hash(t, root, err);
	if (r < 0)
		return r;
	if (strcmp(root, text(m, "rootfs")) != 0)
		return err_set(err, ERR_CONFLICT, -EXDEV,
			"this snapshot stands on a template %s whose file system is another than here: "
			"build the definition that it was built from (version %s), or copy its "
			"folder <templates>/%s from there",
			name, version, name);
	*ret = steal_ptr(&t);
	return 0;
}

/* Files of the right length and full of zeros. */
static int make_files(struct snapshot_import *import, const uint64_t sizes[_STATE_MEMBER_MAX],
	struct err *err)
{
	int r = fs_mkdirs(import->dir, 0700, err);

	for (unsigned int m = 0; r == 0 && m < _STATE_MEMBER_MAX; m++) {
		_cleanup_free_ char *path =
			fs_join(import->dir, state_member_name((enum state_member)m));

		import->fds[m] = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (import->fds[m] < 0 || ftruncate(import->fds[m], (off_t)sizes[m]) < 0)
			r = err_set_errno(err, -errno, "can't make %s", path);
	}
	return r;
}

static int on_manifest(const json_t *m, const uint64_t sizes[_STATE_MEMBER_MAX], void *user,
	struct err *err)
{
	struct snapshot_import *import = user;
	int r = check_manifest(m, sizes, err);

	if (r == 0)
		r = check_engine(&import->core->engine, m, err);
	if (r == 0)
		r = find_template(import->core, m, &import->t, err);
	if (r == 0)
		r = check_machine(&import->t->image, m, sizes, err);
	if (r == 0 && sizes[STATE_DISK] != import->t->disk_bytes)
		r = err_set(err, ERR_CONFLICT, -EXDEV,
			"this snapshot's disk is of another size than those of template %s here",
			import->t->name);
	if (r == 0)
		r = make_files(import, sizes, err);
	if (r == 0)
		import->manifest = json_deep_copy(m);
	return r;
}

static int on_data(enum state_member m, uint64_t offset, const void *data, size_t len, void *user,
	struct err *err)
{
	const struct snapshot_import *import = user;

	while (len > 0) {
		ssize_t n = pwrite(import->fds[m], data, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, -errno, "can't write the snapshot");
		data = (const char *)data + n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

struct snapshot_import *snapshot_import_new(struct core *core)
{
	static const struct state_reader_ops ops = {.manifest = on_manifest, .data = on_data};
	struct snapshot_import *import = xnew(struct snapshot_import);

	import->core = core;
	import->reader = state_reader_new(&ops, import);
	core_make_id(import->id);
	if (asprintf(&import->dir, "%s/imports/%s", core->data_dir, import->id) < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(import->fds); i++)
		import->fds[i] = -1;
	return import;
}

struct snapshot_import *snapshot_import_free(struct snapshot_import *import)
{
	if (!import)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(import->fds); i++)
		cleanup_close(&import->fds[i]);
	(void)fs_remove_tree(import->dir, NULL); /* best effort: the next start does it */
	state_reader_free(import->reader);
	template_free(import->t);
	json_decref(import->manifest);
	free(import->dir);
	free(import);
	return NULL;
}

int snapshot_import_feed(struct snapshot_import *import, const void *data, size_t len,
	struct err *err)
{
	return state_reader_feed(import->reader, data, len, err);
}

static int put_row(struct snapshot_import *import, const char *hash, struct snapshot **ret,
	struct err *err)
{
	const json_t *m = import->manifest;
	_cleanup_free_ char *env = json_dumps(json_object_get(m, "env"), JSON_COMPACT);
	_cleanup_free_ char *network = json_dumps(json_object_get(m, "network"), JSON_COMPACT);
	const struct store_snapshot row = {
		.id = import->id,
		.sandbox_id = text(m, "sandbox_id"),
		.template = import->t->name,
		.version = import->t->version,
		.engine = import->core->engine.name,
		.env = env ? env : "{}",
		.network = network ? network : "{}",
		.accel = accel_name(import->t->image.accel),
		.hash = hash,
		.created_ms = MIN(number(m, "created_ms"), clock_real_ms()),
		.cpus = import->t->image.cpus,
		.memory_bytes = (int64_t)import->t->image.memory_bytes,
		.delta_bytes = 0, /* all of it is in `memory` */
		.size_bytes = (int64_t)fs_disk_usage(import->dir),
		.pause_us = number(m, "pause_us"),
	};

	return snapshot_register(import->core, import->dir, &row, ret, err);
}

int snapshot_import_finish(struct snapshot_import *import, struct snapshot **ret, struct err *err)
{
	char hash[STATE_HASH_SIZE];
	int r = state_reader_end(import->reader, err);

	if (r == 0)
		r = state_hash(import->dir, hash, err);
	if (r == 0)
		r = fs_sync_tree(import->dir, err);
	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&import->core->captures);
	r = put_row(import, hash, ret, err);
	pthread_rwlock_unlock(&import->core->captures);
	if (r == 0)
		log_info("snapshot imported", LOG_STR("snapshot", import->id),
			LOG_STR("template", import->t->name));
	return r;
}
