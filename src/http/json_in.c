/* SPDX-License-Identifier: Apache-2.0 */
/* Typed access to a client's JSON object, with errors that say what was wanted. */
#include "http/json_in.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_count.h"
#include "base/limits.h"
#include "base/str.h"

enum { SHOWN_BYTES = 64 };

/* What the client sent instead, short and harmless. */
static const char *show(char dst[SHOWN_BYTES], const json_t *v)
{
	char text[4 * SHOWN_BYTES];
	size_t n = json_dumpb(v, text, sizeof(text), JSON_ENCODE_ANY | JSON_COMPACT);

	if (n == 0)
		return "something else";
	return str_printable(dst, SHOWN_BYTES, text, MIN(n, sizeof(text)));
}

static int err_wanted(const json_t *v, const char *key, const char *wanted, struct err *err)
{
	char shown[SHOWN_BYTES];

	return err_set(err, ERR_INVALID, -EINVAL, "`%s` must be %s, not %s", key, wanted,
		show(shown, v));
}

/* The member, or NULL when it is absent or null. */
static json_t *member(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

int json_in_parse(const char *text, size_t len, json_t **ret, struct err *err)
{
	json_error_t e;
	json_t *root;

	if (json_count_values(text, len) > LIMIT_JSON_VALUES)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"the body has too many values: at most %d are taken", LIMIT_JSON_VALUES);
	if (len == 0) {
		*ret = json_object();
		return *ret ? 0 : err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	}
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!root) {
		char safe[JSON_ERROR_TEXT_LENGTH];

		return err_set(err, ERR_INVALID, -EINVAL,
			"the body is not valid JSON: line %d, column %d: %s", e.line, e.column,
			str_printable(safe, sizeof(safe), e.text, strlen(e.text)));
	}
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, ERR_INVALID, -EINVAL, "the body must be a JSON object");
	}
	*ret = root;
	return 0;
}

static int check_text(const json_t *v, const char *key, size_t max_bytes, struct err *err)
{
	size_t len = json_string_length(v);

	if (len > max_bytes)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"`%s` is too long: %zu bytes, at most %zu are taken", key, len, max_bytes);
	if (strlen(json_string_value(v)) != len)
		return err_set(err, ERR_INVALID, -EINVAL, "`%s` must not hold a NUL character",
			key);
	return 0;
}

int json_in_str(const json_t *obj, const char *key, size_t max_bytes, const char **ret,
	struct err *err)
{
	const json_t *v = member(obj, key);
	int r;

	if (!v)
		return 0;
	if (!json_is_string(v))
		return err_wanted(v, key, "a string", err);
	r = check_text(v, key, max_bytes, err);
	if (r < 0)
		return r;
	*ret = json_string_value(v);
	return 0;
}

int json_in_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct err *err)
{
	const json_t *v = member(obj, key);
	char wanted[80];
	double d;

	if (!v)
		return 0;
	d = json_number_value(v);
	if (!json_is_number(v) || d != floor(d) || d < (double)min || d > (double)max) {
		(void)snprintf(wanted, sizeof(wanted),
			"an integer between %" PRId64 " and %" PRId64, min, max);
		return err_wanted(v, key, wanted, err);
	}
	*ret = (int64_t)d;
	return 0;
}

int json_in_seconds(const json_t *obj, const char *key, int64_t max_ms, int64_t *ret_ms,
	struct err *err)
{
	const json_t *v = member(obj, key);
	char wanted[80];
	double ms;

	if (!v)
		return 0;
	ms = ceil(json_number_value(v) * 1000);
	if (!json_is_number(v) || ms <= 0 || ms > (double)max_ms) {
		(void)snprintf(wanted, sizeof(wanted),
			"a number of seconds over 0 and at most %" PRId64, max_ms / 1000);
		return err_wanted(v, key, wanted, err);
	}
	*ret_ms = (int64_t)ms;
	return 0;
}

int json_in_bool(const json_t *obj, const char *key, bool *ret, struct err *err)
{
	const json_t *v = member(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return err_wanted(v, key, "true or false", err);
	*ret = json_is_true(v);
	return 0;
}

int json_in_map(const json_t *obj, const char *key, const struct json_in_map_limits *limits,
	json_t **ret, struct err *err)
{
	json_t *map = member(obj, key), *v;
	const char *k;

	if (!map)
		return 0;
	if (!json_is_object(map))
		return err_wanted(map, key, "an object of strings", err);
	if (json_object_size(map) > limits->entries)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`%s` has %zu entries, at most %zu are taken", key, json_object_size(map),
			limits->entries);
	json_object_foreach(map, k, v) {
		int r;

		if (strlen(k) > limits->key_bytes)
			return err_set(err, ERR_INVALID, -EINVAL,
				"a key in `%s` is longer than %zu bytes", key, limits->key_bytes);
		if (!json_is_string(v))
			return err_wanted(v, key, "an object whose values are strings", err);
		r = check_text(v, key, limits->value_bytes, err);
		if (r < 0)
			return r;
	}
	*ret = map;
	return 0;
}

int json_in_env(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
	static const struct json_in_map_limits limits = {
		.entries = LIMIT_ENV_ENTRIES,
		.key_bytes = LIMIT_COMMAND_BYTES,
		.value_bytes = LIMIT_COMMAND_BYTES,
	};
	json_t *env = NULL, *v;
	const char *k;
	int r = json_in_map(obj, key, &limits, &env, err);

	if (r < 0)
		return r;
	json_object_foreach(env, k, v) {
		if (!*k || strchr(k, '='))
			return err_set(err, ERR_INVALID, -EINVAL,
				"`%s` has a variable name that is empty or holds '='", key);
	}
	if (env)
		*ret = env;
	return 0;
}
