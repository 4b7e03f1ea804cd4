/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the targets of requests. */
#include "mirror/target.h"

#include <ctype.h>
#include <curl/curl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

static bool is_name(const char *s)
{
	if (!*s || *s == '.' || strlen(s) > 255)
		return false;
	while (isalnum((unsigned char)*s) || (*s && strchr("-_.+~!", *s)))
		s++;
	return !*s;
}

/* As PEP 503 has it; pip and uv ask for nothing else. */
static bool is_project(const char *s)
{
	return is_name(s) && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

static bool is_hash(const char *s)
{
	return strlen(s) == 2 * crypto_hash_sha256_BYTES && !s[strspn(s, "0123456789abcdef")];
}

static char *copy(const char *scope, const char *name)
{
	char *s;

	if (asprintf(&s, "%s%s%s", scope, *scope ? "/" : "", name) < 0)
		abort();
	return s;
}

static enum target_kind read_python(struct target *t, char **part, size_t n)
{
	if (n < 3 || !is_project(part[2]))
		return TARGET_NONE;
	t->name = copy("", part[2]);
	if (n == 3 && strcmp(part[1], "simple") == 0)
		return TARGET_PYTHON_PAGE;
	if (n != 5 || strcmp(part[1], "files") != 0 || !is_hash(part[3]) || !is_name(part[4]))
		return TARGET_NONE;
	t->hash = part[3];
	t->file = part[4];
	return TARGET_PYTHON_FILE;
}

/* The package that n parts end with: how many of them it takes, or 0. Its '/' may come escaped. */
static size_t read_package(struct target *t, char **part, size_t n)
{
	char *name = n > 0 ? part[n - 1] : NULL, *slash = name ? strchr(name, '/') : NULL;
	size_t used = 1;

	if (slash && name[0] == '@') {
		*slash = '\0';
		t->name = is_name(name + 1) && is_name(slash + 1) ? copy(name, slash + 1) : NULL;
	} else if (n > 1 && part[n - 2][0] == '@' && is_name(part[n - 2] + 1) && is_name(name)) {
		t->name = copy(part[n - 2], name);
		used = 2;
	} else if (name && is_name(name)) {
		t->name = copy("", name);
	}
	return t->name ? used : 0;
}

static enum target_kind read_npm(struct target *t, char **part, size_t n)
{
	if (n > 2 && strcmp(part[n - 2], "-") == 0 && is_name(part[n - 1]) &&
		read_package(t, part, n - 2) > 0)
		return TARGET_NPM_TARBALL;
	return read_package(t, part, n) == n ? TARGET_NPM_METADATA : TARGET_NPM_OTHER;
}

void target_parse(const char *text, struct target *ret)
{
	size_t n;

	*ret = (struct target){.kind = TARGET_NONE};
	if (str_starts_with(text, "http://")) {
		ret->kind = TARGET_APT;
		return;
	}
	if (url_parse(text, &ret->url, NULL) < 0)
		return;
	n = ret->url.n_segments;
	if (n > 1 && !*ret->url.segments[n - 1])
		n--;
	if (n > 1 && strcmp(ret->url.segments[0], "pypi") == 0 &&
		strcmp(ret->url.segments[1], "-") != 0)
		ret->kind = read_python(ret, ret->url.segments, n);
	else if (*ret->url.segments[0])
		ret->kind = read_npm(ret, ret->url.segments, n);
}

void target_done(struct target *t)
{
	free(t->name);
	url_done(&t->url);
}

char *target_of_file(const char *name, const char *hash, const char *file)
{
	_cleanup_free_ char *escaped = NULL;
	char *target;

	if (!file || !is_name(file))
		return NULL;
	escaped = curl_easy_escape(NULL, file, 0);
	if (!escaped || asprintf(&target, "/pypi/files/%s/%s/%s", name, hash, escaped) < 0)
		abort();
	return target;
}
