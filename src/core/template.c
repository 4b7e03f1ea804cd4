/* SPDX-License-Identifier: Apache-2.0 */
/* Baked templates on disk: finding, reading and checking them. */
#include "core/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "core/egress.h"

enum {
	MANIFEST_BYTES_MAX = 64 << 10,
	TEMPLATES_MAX = 1000,
	VERSION_CHARS_MIN = 16, /* of a version's name, hex: no other folder here looks like that */
	REF_TRIES = 100,
	HOLDERS_LISTED = 8, /* in an error's message, as UUIDs with ", " */
	HOLDERS_CHARS_MAX = HOLDERS_LISTED * 38,
};

/* Before the name of a version that is being removed. */
#define GONE ".gone-"

struct template_set {
	char *dir; /* owned, absolute */
};

/* Names that published clients ask for, and ours. */
static const char *const aliases[][2] = {
	{"ubuntu-24.04", "code-interpreter"}, /* the default of @pandastack/sdk */
	{"code-interpreter-v1", "code-interpreter"},
};

bool template_name_ok(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return len > 0 && len <= TEMPLATE_NAME_MAX && name[len] == '\0' && !strchr("-_.", name[0]);
}

struct template *template_free(struct template *t)
{
	if (!t)
		return NULL;
	free(t->name);
	free(t->version);
	free(t->description);
	free(t->engine);
	free(t->engine_version);
	free(t->kernel);
	json_decref(t->languages);
	json_decref(t->network);
	free(t->image.dir);
	free(t->image.cpu_model);
	free(t);
	return NULL;
}

int template_set_new(const char *dir, struct template_set **ret, struct err *err)
{
	struct template_set *set;
	int r = fs_mkdirs(dir, 0755, err);

	if (r < 0)
		return r;
	set = xnew(struct template_set);
	set->dir = realpath(dir, NULL);
	if (!set->dir) {
		r = err_set_errno(err, -errno, "can't open the templates' folder %s", dir);
		free(set);
		return r;
	}
	*ret = set;
	return 0;
}

struct template_set *template_set_free(struct template_set *set)
{
	if (!set)
		return NULL;
	free(set->dir);
	free(set);
	return NULL;
}

const char *template_set_dir(const struct template_set *set)
{
	return set->dir;
}

static char *dup_string(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? strdup(s) : NULL;
}

static int64_t integer(const json_t *obj, const char *key)
{
	return json_integer_value(json_object_get(obj, key)); /* 0 where there is none */
}

static json_t *dup_strings(const json_t *obj, const char *key)
{
	json_t *copy = json_array(), *item;
	size_t i;

	json_array_foreach(json_object_get(obj, key), i, item) {
		if (json_is_string(item))
			(void)json_array_append(copy, item);
	}
	return copy;
}

/* Fills the template from its manifest; false when something needed is missing or out of bounds. */
static bool parse_manifest(const json_t *m, struct template *t)
{
	const char *accel = json_string_value(json_object_get(m, "accel"));
	int64_t cpus = integer(m, "cpus"), memory = integer(m, "memory_bytes");
	int64_t tsc_khz = integer(m, "tsc_khz");

	t->name = dup_string(m, "name");
	t->version = dup_string(m, "version");
	t->description = dup_string(m, "description");
	t->engine = dup_string(m, "engine");
	t->engine_version = dup_string(m, "engine_version");
	t->kernel = dup_string(m, "kernel");
	t->languages = dup_strings(m, "languages");
	t->network = json_incref(json_object_get(m, "network"));
	t->image.cpu_model = dup_string(m, "cpu_model");
	t->size_bytes = (uint64_t)integer(m, "size_bytes");
	t->disk_bytes = (uint64_t)integer(m, "disk_bytes");
	t->built_ms = integer(m, "built_ms");
	t->image.cpus = (unsigned int)cpus;
	t->image.memory_bytes = (uint64_t)memory;
	t->image.tsc_khz = (uint64_t)tsc_khz;
	return (!t->network || egress_check(t->network, NULL) == 0) && t->name && t->version &&
		t->description && t->engine && t->engine_version && t->image.cpu_model && accel &&
		accel_from_name(accel, &t->image.accel) == 0 && cpus >= 1 && cpus <= 64 &&
		memory >= (int64_t)MIB(64) && memory <= (int64_t)1 << 40 && tsc_khz >= 0 &&
		t->size_bytes <= INT64_MAX && t->disk_bytes <= INT64_MAX;
}

/* `version` may be "current". */
static int read_version(const struct template_set *set, const char *name, const char *version,
	struct template **ret, struct err *err)
{
	_cleanup_template_ struct template *t = xnew(struct template);
	_cleanup_free_ char *link = NULL, *manifest = NULL, *text = NULL;
	json_t *json;
	size_t len;
	bool ok;
	int r;

	if (asprintf(&link, "%s/%s/%s", set->dir, name, version) < 0)
		abort();
	t->image.dir = realpath(link, NULL);
	if (!t->image.dir)
		return err_set(err, ERR_TEMPLATE_NOT_FOUND, -ENOENT, "template not found: %s",
			name);
	manifest = fs_join(t->image.dir, "manifest.json");
	r = fs_read(manifest, MANIFEST_BYTES_MAX, &text, &len, NULL);
	json = r < 0 ? NULL : json_loadb(text, len, 0, NULL);
	if (json_is_integer(json_object_get(json, "format")) &&
		integer(json, "format") != TEMPLATE_FORMAT) {
		json_decref(json);
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked by another version of pandastack: "
			"run `pandastack template build %s` once more",
			name, name);
	}
	ok = parse_manifest(json, t) && strcmp(t->name, name) == 0;
	json_decref(json);
	if (!ok)
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s is damaged (%s): run `pandastack template build %s` once more",
			name, manifest, name);
	*ret = steal_ptr(&t);
	return 0;
}

static int read_template(const struct template_set *set, const char *name, struct template **ret,
	struct err *err)
{
	return read_version(set, name, "current", ret, err);
}

int template_load_version(struct template_set *set, const char *name, const char *version,
	struct template **ret, struct err *err)
{
	int r = read_version(set, name, version, ret, err);

	return r == -ENOENT ? err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
				      "version %s of template %s is no more", version, name)
			    : r;
}

int template_check_engine(const struct template *t, const struct engine_info *engine,
	struct err *err)
{
	uint64_t tsc = t->image.tsc_khz, host = engine->tsc_khz;

	if (strcmp(t->engine, engine->name) != 0 ||
		strcmp(t->engine_version, engine->version) != 0 ||
		(t->image.accel == ACCEL_KVM && engine->accel != ACCEL_KVM))
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked with %s %s (%s), but this is %s %s (%s): "
			"run `pandastack template build %s` once more",
			t->name, t->engine, t->engine_version, accel_name(t->image.accel),
			engine->name, engine->version, accel_name(engine->accel), t->name);
	/* A guest whose seconds are off by more than 1 in 1,000 is of no use. */
	if (tsc && host && (tsc < host - host / 1000 || tsc > host + host / 1000))
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked on a machine whose clock ticks at another rate: "
			"run `pandastack template build %s` here",
			t->name, t->name);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The sorted names of all folders that hold a template; free_names(). */
static char **list_names(const struct template_set *set, size_t *ret_n)
{
	char **names = xcalloc(TEMPLATES_MAX, sizeof(char *));
	DIR *dir = opendir(set->dir);
	struct dirent *e;
	size_t n = 0;

	while (dir && n < TEMPLATES_MAX && (e = readdir(dir))) {
		char path[NAME_MAX + 32];

		(void)snprintf(path, sizeof(path), "%s/current/manifest.json", e->d_name);
		if (template_name_ok(e->d_name) && faccessat(dirfd(dir), path, R_OK, 0) == 0 &&
			(names[n] = strdup(e->d_name)))
			n++;
	}
	if (dir)
		(void)closedir(dir);
	qsort(names, n, sizeof(char *), compare_names);
	*ret_n = n;
	return names;
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int err_unknown(const struct template_set *set, const char *name, struct err *err)
{
	_cleanup_buf_ struct buf known = buf_init(256);
	size_t n;
	char **names = list_names(set, &n);

	for (size_t i = 0; i < n; i++)
		(void)buf_appendf(&known, "%s%s", i ? ", " : "", names[i]); /* as many as fit */
	free_names(names, n);
	return err_set(err, ERR_TEMPLATE_UNKNOWN, -ENOENT,
		"unknown template \"%s\"; there %s: %s%s", name, n == 1 ? "is" : "are",
		known.len ? known.data : "none yet",
		known.len ? "" : " (run `pandastack template build code-interpreter`)");
}

int template_load(struct template_set *set, const char *name, struct template **ret,
	struct err *err)
{
	int r;

	if (!template_name_ok(name))
		return err_unknown(set, "(not a name)", err);
	r = read_template(set, name, ret, err);
	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(aliases); i++) {
		if (strcmp(aliases[i][0], name) == 0)
			r = read_template(set, aliases[i][1], ret, err);
	}
	return r == -ENOENT ? err_unknown(set, name, err) : r;
}

int template_get(struct template_set *set, const char *name, struct template **ret, struct err *err)
{
	if (!template_name_ok(name))
		return err_set(err, ERR_TEMPLATE_NOT_FOUND, -ENOENT, "template not found");
	return read_template(set, name, ret, err);
}

int template_list(struct template_set *set, struct template ***ret, size_t *ret_n, struct err *err)
{
	size_t n, found = 0;
	char **names = list_names(set, &n);
	struct template **all = xcalloc(n + 1, sizeof(struct template *));

	for (size_t i = 0; i < n; i++) {
		if (read_template(set, names[i], &all[found], NULL) == 0)
			found++;
	}
	free_names(names, n);
	*ret = all;
	*ret_n = found;
	return 0;
}

/* ---- who stands on a version ---- */

static char *refs_dir(const char *template_dir, const char *version)
{
	char *path;

	if (asprintf(&path, "%s/refs/%s", template_dir, version) < 0)
		abort();
	return path;
}

/* -EEXIST where there is such a link already. */
static int put_ref(const char *dir, const char *link, const char *target)
{
	int r = -ENOENT;

	/* Each time the last of the others has let go meanwhile, which takes the folder away. */
	for (int i = 0; r == -ENOENT && i < REF_TRIES; i++) {
		r = fs_mkdirs(dir, 0755, NULL);
		if (r == 0 && symlink(target, link) < 0)
			r = -errno;
	}
	return r;
}

/* Whether the link, which is there, leads to that. */
static bool ref_is_to(const char *link, const char *target)
{
	char found[PATH_MAX];
	ssize_t n = readlink(link, found, sizeof(found) - 1);

	found[MAX(n, 0)] = '\0';
	return strcmp(found, target) == 0;
}

int template_hold(struct template_set *set, const char *name, const char *version, const char *id,
	const char *target, struct err *err)
{
	_cleanup_free_ char *template_dir = fs_join(set->dir, name);
	_cleanup_free_ char *dir = refs_dir(template_dir, version), *link = fs_join(dir, id);
	_cleanup_free_ char *held = fs_join(template_dir, version);
	int r = -ESTALE;

	if (access(held, F_OK) == 0)
		r = put_ref(dir, link, target);
	if (r == -EEXIST && !ref_is_to(link, target)) { /* the data folder was moved */
		(void)unlink(link);
		r = put_ref(dir, link, target);
	}
	/* From here on nobody removes it (template_drop()); before, somebody may have. */
	if ((r == 0 || r == -EEXIST) && access(held, F_OK) == 0)
		return 0;
	if (r != 0 && r != -EEXIST && r != -ESTALE)
		return err_set_errno(err, r, "can't hold the template (%s)", link);
	template_release(set, name, version, id);
	return err_set(err, ERR_TEMPLATE_STALE, -ESTALE, "version %s of template %s is no more",
		version, name);
}

void template_release(struct template_set *set, const char *name, const char *version,
	const char *id)
{
	_cleanup_free_ char *template_dir = fs_join(set->dir, name);
	_cleanup_free_ char *dir = refs_dir(template_dir, version), *link = fs_join(dir, id);

	(void)unlink(link); /* one that is left points nowhere, and does not count */
	(void)rmdir(dir);   /* fails while others are there */
}

/* A reference to something that is no more; what can't be told is taken for being there. */
static bool is_stale(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, 0) < 0 && errno == ENOENT;
}

unsigned int template_holders(const char *template_dir, const char *version, struct buf *ids)
{
	_cleanup_free_ char *path = refs_dir(template_dir, version);
	DIR *dir = opendir(path);
	const struct dirent *e;
	unsigned int n = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || is_stale(dirfd(dir), e->d_name))
			continue;
		if (ids) /* as many as have room */
			(void)buf_appendf(ids, "%s%s", ids->len ? ", " : "", e->d_name);
		n++;
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

int template_drop(const char *template_dir, const char *version, struct err *err)
{
	_cleanup_free_ char *path = fs_join(template_dir, version), *aside = NULL;

	if (template_holders(template_dir, version, NULL) > 0)
		return -EBUSY;
	if (asprintf(&aside, "%s/" GONE "%s", template_dir, version) < 0)
		abort();
	if (fs_remove_tree(aside, NULL) < 0 || rename(path, aside) < 0)
		return err_set_errno(err, -errno, "can't remove %s", path);
	/* Who has held it meanwhile has seen it there; who comes now does not. */
	if (template_holders(template_dir, version, NULL) > 0 && rename(aside, path) == 0)
		return -EBUSY;
	return fs_remove_tree(aside, err);
}

/* False while it is being built. Where the lock can't be opened there is none. */
static bool lock_template(const char *template_dir, int *ret_fd)
{
	_cleanup_free_ char *path = fs_join(template_dir, ".lock");

	*ret_fd = open(path, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 || flock(*ret_fd, LOCK_EX | LOCK_NB) == 0;
}

/* -EBUSY where snapshots or sandboxes stand on any version. */
static int check_holders(const char *template_dir, const char *name, struct err *err)
{
	_cleanup_free_ char *path = fs_join(template_dir, "refs");
	DIR *dir = opendir(path);
	const struct dirent *e;
	_cleanup_buf_ struct buf ids = buf_init(HOLDERS_CHARS_MAX);
	unsigned int n = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			n += template_holders(template_dir, e->d_name, &ids);
	}
	if (dir)
		(void)closedir(dir);
	if (n == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, -EBUSY,
		"%u snapshot%s or sandbox%s stand%s on template %s (%s%s): delete them first, or "
		"remove it by force, which keeps what they need",
		n, n == 1 ? "" : "s", n == 1 ? "" : "es", n == 1 ? "s" : "", name, ids.data,
		n > HOLDERS_LISTED ? ", ..." : "");
}

static bool is_version(const char *name)
{
	size_t len = strspn(name, "0123456789abcdef");

	return len >= VERSION_CHARS_MIN && name[len] == '\0';
}

/* All but the versions that are held, and who holds them. */
static int remove_unheld(const char *template_dir, struct err *err)
{
	DIR *dir = opendir(template_dir);
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", template_dir);
	while (r == 0 && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(template_dir, e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
			strcmp(e->d_name, ".lock") == 0 || strcmp(e->d_name, "refs") == 0)
			continue;
		r = is_version(e->d_name) ? template_drop(template_dir, e->d_name, err)
					  : fs_remove_tree(path, err);
		if (r == -EBUSY)
			r = 0;
	}
	(void)closedir(dir);
	return r;
}

static bool is_held(const char *template_dir)
{
	return check_holders(template_dir, "", NULL) < 0;
}

int template_remove(struct template_set *set, const char *name, bool force, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	_cleanup_free_ char *dir = NULL, *current = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = template_get(set, name, &t, err);

	if (r < 0 && r != -ESTALE) /* what can't be used may still be removed */
		return r;
	dir = fs_join(set->dir, name);
	current = fs_join(dir, "current");
	if (!lock_template(dir, &lock_fd))
		return err_set(err, ERR_CONFLICT, -EBUSY,
			"template %s is being built: wait for the end of that", name);
	r = force ? 0 : check_holders(dir, name, err);
	if (r < 0)
		return r;
	/* First what it is found by, so that nobody starts from half of it. */
	if (unlink(current) < 0 && errno != ENOENT)
		return err_set_errno(err, -errno, "can't remove %s", current);
	return is_held(dir) ? remove_unheld(dir, err) : fs_remove_tree(dir, err);
}

/* ---- what nobody needs ---- */

/* Takes away references of holders that are gone. */
static void drop_stale_refs(const char *template_dir, const char *version)
{
	_cleanup_free_ char *path = refs_dir(template_dir, version);
	DIR *dir = opendir(path);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.' && is_stale(dirfd(dir), e->d_name))
			(void)unlinkat(dirfd(dir), e->d_name,
				0); /* best effort: it does not count */
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(path); /* fails while others are there */
}

static void drop_all_stale_refs(const char *template_dir)
{
	_cleanup_free_ char *path = fs_join(template_dir, "refs");
	DIR *dir = opendir(path);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			drop_stale_refs(template_dir, e->d_name);
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(path);
}

/* Empty when there is none, and then none of the versions is current. */
static void read_current(const char *template_dir, char ret[NAME_MAX + 1])
{
	_cleanup_free_ char *path = fs_join(template_dir, "current");
	ssize_t n = readlink(path, ret, NAME_MAX);

	ret[n < 0 ? 0 : n] = '\0';
}

/* Goes on where a template_drop() ended that was killed. */
static void finish_drop(const char *template_dir, const char *version)
{
	_cleanup_free_ char *path = fs_join(template_dir, version), *aside = NULL;

	if (asprintf(&aside, "%s/" GONE "%s", template_dir, version) < 0)
		abort();
	if (template_holders(template_dir, version, NULL) == 0 || rename(aside, path) < 0)
		(void)fs_remove_tree(aside, NULL); /* best effort: the next sweep does it */
}

static void sweep_versions(const char *template_dir, const char *name,
	const struct template_sweep *sweep)
{
	DIR *dir = opendir(template_dir);
	const struct dirent *e;
	char current[NAME_MAX + 1];

	read_current(template_dir, current);
	while (dir && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(template_dir, e->d_name);
		uint64_t bytes;

		if (strncmp(e->d_name, GONE, strlen(GONE)) == 0)
			finish_drop(template_dir, e->d_name + strlen(GONE));
		if (!is_version(e->d_name) || strcmp(e->d_name, current) == 0)
			continue;
		bytes = fs_own_usage(path);
		if (template_drop(template_dir, e->d_name, NULL) == 0)
			sweep->removed(name, e->d_name, bytes, sweep->user);
	}
	if (dir)
		(void)closedir(dir);
}

/* What is left of one that was removed by force, once nothing stands on it any more; fails while something is there. */
static void remove_if_empty(const char *template_dir)
{
	_cleanup_free_ char *lock = fs_join(template_dir, ".lock");
	DIR *dir = opendir(template_dir);
	const struct dirent *e;
	bool empty = dir;

	while (dir && (e = readdir(dir)))
		empty = empty &&
			(strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
				strcmp(e->d_name, ".lock") == 0);
	if (dir)
		(void)closedir(dir);
	if (empty) {
		(void)unlink(lock);
		(void)rmdir(template_dir);
	}
}

int template_sweep(struct template_set *set, const struct template_sweep *sweep, struct err *err)
{
	DIR *dir = opendir(set->dir);
	const struct dirent *e;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", set->dir);
	while ((e = readdir(dir))) {
		_cleanup_free_ char *template_dir = fs_join(set->dir, e->d_name);
		_cleanup_close_ int lock_fd = -1;

		if (!template_name_ok(e->d_name) || !lock_template(template_dir, &lock_fd))
			continue; /* one that is being built is its builder's */
		drop_all_stale_refs(template_dir);
		sweep_versions(template_dir, e->d_name, sweep);
		remove_if_empty(template_dir);
	}
	(void)closedir(dir);
	return 0;
}
