/* SPDX-License-Identifier: Apache-2.0 */
/* What a template is made of: parsing and checking template.json. */
#include "bake/definition.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "core/egress.h"
#include "core/template.h"

enum { DEFINITION_BYTES_MAX = 64 << 10 };

struct definition *definition_free(struct definition *d)
{
	if (!d)
		return NULL;
	free(d->dir);
	free(d->name);
	free(d->description);
	free(d->from);
	free(d->kernel);
	json_decref(d->network);
	free(d);
	return NULL;
}

static int bad(const char *dir, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, -EINVAL, "%s/template.json: %s", dir, what);
}

/* "packages", "requirements", "script" and "suite" are read by build-rootfs. */
static int check_keys(const json_t *json, const char *dir, struct err *err)
{
	static const char *const known[] = {"name", "description", "from", "suite", "packages",
		"requirements", "script", "cpu", "memory_mb", "disk_mb", "kernel", "network"};
	const char *key;
	json_t *value;
	char safe[80];

	json_object_foreach((json_t *)(uintptr_t)json, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(known) && strcmp(known[i], key) != 0)
			i++;
		if (i == ARRAY_SIZE(known))
			return err_set(err, ERR_INVALID, -EINVAL,
				"%s/template.json: unknown key \"%s\"", dir,
				str_printable(safe, sizeof(safe), key, strlen(key)));
	}
	return 0;
}

static char *dup_string(const json_t *json, const char *key)
{
	return xstrdup(json_string_value(json_object_get(json, key)));
}

/* An integer of that key within bounds; `fallback` where it is absent. */
static int get_integer(const json_t *json, const char *key, int64_t fallback, int64_t min,
	int64_t max, int64_t *ret)
{
	const json_t *v = json_object_get(json, key);

	if (v && !json_is_integer(v))
		return -EINVAL;
	*ret = v ? json_integer_value(v) : fallback;
	return *ret < min || *ret > max ? -ERANGE : 0;
}

/* What only build-rootfs reads: the types, so that a mistake is found before minutes have passed. */
static int check_build_keys(const json_t *json, const char *dir, struct err *err)
{
	static const char *const texts[] = {"suite", "requirements", "script"};
	const json_t *packages = json_object_get(json, "packages"), *v;
	char what[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		v = json_object_get(json, texts[i]);
		(void)snprintf(what, sizeof(what), "\"%s\" must be a text", texts[i]);
		if (v && !json_is_string(v))
			return bad(dir, err, what);
	}
	if (packages && !json_is_array(packages))
		return bad(dir, err, "\"packages\" must be a list of package names");
	json_array_foreach(packages, i, v) {
		if (!json_is_string(v))
			return bad(dir, err, "\"packages\" must be a list of package names");
	}
	return 0;
}

static int fill(struct definition *d, const json_t *json, struct err *err)
{
	int64_t cpus, memory_mb, disk_mb;
	const json_t *from;

	d->name = dup_string(json, "name");
	d->description = dup_string(json, "description");
	d->from = dup_string(json, "from");
	d->kernel = dup_string(json, "kernel");
	if (!d->name || !template_name_ok(d->name))
		return bad(d->dir, err,
			"\"name\" must be lower-case letters, digits, '-', '_', '.'");
	if (!d->description)
		return bad(d->dir, err, "\"description\" is missing");
	from = json_object_get(json, "from");
	if (from && !json_is_null(from) && (!d->from || !template_name_ok(d->from)))
		return bad(d->dir, err, "\"from\" must be a template's name or null");
	if (json_object_get(json, "kernel") && (!d->kernel || strcmp(d->kernel, "python") != 0))
		return bad(d->dir, err, "\"kernel\" must be \"python\" or absent");
	if (get_integer(json, "cpu", 1, 1, 64, &cpus) < 0)
		return bad(d->dir, err, "\"cpu\" must be an integer from 1 to 64");
	if (get_integer(json, "memory_mb", 512, 128, 65536, &memory_mb) < 0)
		return bad(d->dir, err, "\"memory_mb\" must be an integer from 128 to 65536");
	if (get_integer(json, "disk_mb", 8192, 64, 1048576, &disk_mb) < 0)
		return bad(d->dir, err, "\"disk_mb\" must be an integer from 64 to 1048576");
	d->cpus = (unsigned int)cpus;
	d->memory_bytes = (uint64_t)memory_mb << 20;
	d->disk_bytes = (uint64_t)disk_mb << 20;
	d->network = json_incref(json_object_get(json, "network"));
	if (d->network && egress_check(d->network, err) < 0)
		return err_wrap(err, "%s/template.json", d->dir);
	return check_build_keys(json, d->dir, err);
}

int definition_parse(const char *text, size_t len, const char *dir, struct definition **ret,
	struct err *err)
{
	_cleanup_definition_ struct definition *d = xnew(struct definition);
	json_error_t where;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	int r;

	d->dir = xstrdup(dir);
	if (!json_is_object(json)) {
		json_decref(json);
		return err_set(err, ERR_INVALID, -EINVAL, "%s/template.json, line %d: %s", dir,
			where.line, json ? "not an object" : where.text);
	}
	r = check_keys(json, dir, err);
	if (r == 0)
		r = fill(d, json, err);
	json_decref(json);
	if (r < 0)
		return r;
	*ret = steal_ptr(&d);
	return 0;
}

int definition_load(const char *dir, struct definition **ret, struct err *err)
{
	_cleanup_free_ char *path = fs_join(dir, "template.json"), *text = NULL;
	size_t len;
	int r = fs_read(path, DEFINITION_BYTES_MAX, &text, &len, err);

	return r < 0 ? r : definition_parse(text, len, dir, ret, err);
}
