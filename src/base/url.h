/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a request ("/v1/sandboxes/x/fs?path=%2Fa+b") in parts, percent-decoded. Strict: a
 * bad escape, bytes that are not UTF-8 and NUL are errors. '+' is a space in the query only. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	URL_SEGMENTS_MAX = 32,
	URL_QUERY_MAX = 32,
};

struct url {
	char *text; /* owned; all strings below point into it */
	char *segments[URL_SEGMENTS_MAX];
	size_t n_segments;
	struct {
		char *key;
		char *value; /* "" where there is no '=' */
	} query[URL_QUERY_MAX];
	size_t n_query;
};

/* Decodes in place: what is decoded is never longer. -EINVAL (ERR_INVALID). */
int url_decode(char *s, bool plus_is_space, struct err *err);

/* -EINVAL (ERR_INVALID). Call url_done() also after a failure. */
int url_parse(const char *target, struct url *ret, struct err *err);
void url_done(struct url *url);

/* The first value of that key, or NULL. */
const char *url_query(const struct url *url, const char *key);

/*
 * The same as a number or a flag (1, true, 0, false). Where the key is missing *ret stays as it was; -EINVAL
 * (ERR_INVALID) with what was wanted.
 */
int url_query_int(const struct url *url, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct err *err);
int url_query_flag(const struct url *url, const char *key, bool *ret, struct err *err);
