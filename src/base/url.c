/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a request in parts, percent-decoded (RFC 3986). */
#include "base/url.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int url_decode(char *s, bool plus_is_space, struct err *err)
{
	char *out = s;

	for (const char *p = s; *p; p++) {
		int hi, lo;

		if (*p == '+' && plus_is_space) {
			*out++ = ' ';
			continue;
		}
		if (*p != '%') {
			*out++ = *p;
			continue;
		}
		hi = hex_digit(p[1]);
		lo = hi < 0 ? -1 : hex_digit(p[2]);
		if (lo < 0)
			return err_set(err, ERR_INVALID, -EINVAL,
				"the URL has a '%%' that no two hex digits follow; write %%25 for "
				"it");
		if (hi == 0 && lo == 0)
			return err_set(err, ERR_INVALID, -EINVAL,
				"the URL must not hold NUL (%%00)");
		*out++ = (char)(hi << 4 | lo);
		p += 2;
	}
	*out = '\0';
	if (!str_is_utf8(s, (size_t)(out - s)))
		return err_set(err, ERR_INVALID, -EINVAL, "the URL is not UTF-8");
	return 0;
}

static int split_path(char *path, struct url *ret, struct err *err)
{
	char *rest = path + 1;

	if (*path != '/')
		return err_set(err, ERR_INVALID, -EINVAL, "the URL's path must begin with '/'");
	while (rest) {
		char *segment = strsep(&rest, "/");
		int r;

		if (ret->n_segments == URL_SEGMENTS_MAX)
			return err_set(err, ERR_INVALID, -EINVAL, "the URL has too many parts");
		r = url_decode(segment, false, err);
		if (r < 0)
			return r;
		ret->segments[ret->n_segments++] = segment;
	}
	return 0;
}

static int split_query(char *query, struct url *ret, struct err *err)
{
	while (query) {
		char *value = strsep(&query, "&"), *key;
		int r;

		if (!*value)
			continue;
		key = strsep(&value, "=");
		if (!value)
			value = key + strlen(key);
		if (ret->n_query == URL_QUERY_MAX)
			return err_set(err, ERR_INVALID, -EINVAL,
				"the URL has more than %d query parameters", URL_QUERY_MAX);
		ret->query[ret->n_query].key = key;
		ret->query[ret->n_query].value = value;
		ret->n_query++;
		r = url_decode(key, true, err);
		if (r == 0)
			r = url_decode(value, true, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int url_parse(const char *target, struct url *ret, struct err *err)
{
	char *query;
	int r;

	*ret = (struct url){.text = strdup(target)};
	if (!ret->text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	query = ret->text;
	(void)strsep(&query, "?");
	r = split_path(ret->text, ret, err);
	return r < 0 ? r : split_query(query, ret, err);
}

void url_done(struct url *url)
{
	free(url->text);
	*url = (struct url){0};
}

const char *url_query(const struct url *url, const char *key)
{
	for (size_t i = 0; i < url->n_query; i++) {
		if (strcmp(url->query[i].key, key) == 0)
			return url->query[i].value;
	}
	return NULL;
}

int url_query_int(const struct url *url, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct err *err)
{
	const char *text = url_query(url, key);

	if (text && parse_i64(text, min, max, ret) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`%s` must be a whole number from %lld to %lld", key, (long long)min,
			(long long)max);
	return 0;
}

int url_query_flag(const struct url *url, const char *key, bool *ret, struct err *err)
{
	const char *text = url_query(url, key);

	if (!text)
		return 0;
	if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0)
		*ret = true;
	else if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
		*ret = false;
	else
		return err_set(err, ERR_INVALID, -EINVAL, "`%s` must be true or false", key);
	return 0;
}
