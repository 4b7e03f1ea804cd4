/* SPDX-License-Identifier: Apache-2.0 */
/* Baked templates on disk: finding, reading and checking them. */
#include "core/template.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "core/egress.h"

enum {
	MANIFEST_BYTES_MAX = 64 << 10,
	TEMPLATES_MAX = 1000,
};

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
	free(t->sources);
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
	return xstrdup(json_string_value(json_object_get(obj, key)));
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
	const json_t *card =
		json_object_get(m, "card"); /* an earlier pandastack baked none without */

	t->name = dup_string(m, "name");
	t->version = dup_string(m, "version");
	t->sources = dup_string(m, "sources");
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
	t->image.card = !json_is_false(card);
	if (!accel || accel_from_name(accel, &t->image.accel) < 0 ||
		(t->image.accel == ACCEL_KVM &&
			guest_cpu_from_json(json_object_get(m, "cpu"), &t->image.cpu) < 0))
		return false;
	return (!t->network || egress_check(t->network, NULL) == 0) && t->name && t->version &&
		t->description && t->engine && t->engine_version && t->image.cpu_model &&
		cpus >= 1 && cpus <= 64 && memory >= (int64_t)MIB(64) &&
		memory <= (int64_t)1 << 40 && tsc_khz >= 0 && (!card || json_is_boolean(card)) &&
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
	char why[GUEST_CPU_WHY_SIZE];

	if (strcmp(t->engine, engine->name) != 0)
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked for the engine %s, but this is %s: "
			"run `pandastack template build %s --engine %s`",
			t->name, t->engine, engine->name, t->name, engine->name);
	if (strcmp(t->engine_version, engine->version) != 0 ||
		(t->image.accel == ACCEL_KVM && engine->accel != ACCEL_KVM))
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked with %s %s (%s), but this is %s %s (%s): "
			"run `pandastack template build %s` once more",
			t->name, t->engine, t->engine_version, accel_name(t->image.accel),
			engine->name, engine->version, accel_name(engine->accel), t->name);
	if (t->image.accel == ACCEL_KVM && !guest_cpu_fits(&t->image.cpu, &engine->cpu, why))
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked on %s: run `pandastack template build %s` here",
			t->name, why, t->name);
	if (t->image.card != (engine_require(engine, "network", NULL) == 0))
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"template %s was baked %s: run `pandastack template build %s` here",
			t->name,
			t->image.card ? "with a network card, and this host permits machines none"
				      : "where machines could have no network, and here they can",
			t->name);
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
