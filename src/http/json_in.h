/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed access to a client's JSON object, with errors that say what was wanted.
 *
 * An absent or null member leaves *ret as it was, so the caller's initial value is the default.
 * A wrong type or value is -EINVAL (ERR_INVALID), something too long -EMSGSIZE (ERR_TOO_LARGE).
 * What is returned is borrowed from the object. Members that nobody asks for are ignored.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reads a body: empty or one JSON object without duplicate keys, of LIMIT_JSON_VALUES. The caller owns *ret. */
int json_in_parse(const char *text, size_t len, json_t **ret, struct err *err);

/* A string of at most max_bytes, without NUL. */
int json_in_str(const json_t *obj, const char *key, size_t max_bytes, const char **ret,
	struct err *err);

/* An integer in min..max; 60.0 is one too. */
int json_in_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct err *err);

/* A span in seconds that may have a fraction, as milliseconds; over 0 and at most max_ms. */
int json_in_seconds(const json_t *obj, const char *key, int64_t max_ms, int64_t *ret_ms,
	struct err *err);

int json_in_bool(const json_t *obj, const char *key, bool *ret, struct err *err);

/* An object whose values are strings without NUL, with bounds on number, keys and values. */
struct json_in_map_limits {
	size_t entries;
	size_t key_bytes;
	size_t value_bytes;
};
int json_in_map(const json_t *obj, const char *key, const struct json_in_map_limits *limits,
	json_t **ret, struct err *err);

/* Environment variables: a map whose keys are not empty and hold no '='. */
int json_in_env(const json_t *obj, const char *key, json_t **ret, struct err *err);
