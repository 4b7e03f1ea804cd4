/* SPDX-License-Identifier: Apache-2.0 */
/* The host's own indexes. */
#include "mirror/source.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fs.h"
#include "base/spawn.h"
#include "base/str.h"
#include "version.h"

char *source_resolve(const char *at, const char *link)
{
	CURLU *u = curl_url();
	char *url = NULL;

	if (!u)
		abort();
	if (curl_url_set(u, CURLUPART_URL, at, 0) == CURLUE_OK &&
		curl_url_set(u, CURLUPART_URL, link, 0) == CURLUE_OK &&
		curl_url_set(u, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
		curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
		curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK)
		(void)curl_url_get(u, CURLUPART_URL, &url, 0);
	curl_url_cleanup(u);
	return url; /* curl_free() is free() where nobody says otherwise */
}

bool source_owns(const struct source *s, const char *url)
{
	return str_starts_with(url, json_string_value(json_array_get(s->serves, 0)));
}

bool source_serves(const struct source *s, const char *url)
{
	const json_t *prefix;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)s->serves, i, prefix) {
		if (str_starts_with(url, json_string_value(prefix)))
			return true;
	}
	return false;
}

static int read_source(json_t *object, struct source *ret)
{
	const json_t *prefix;
	size_t i;

	if (json_unpack(object, "{s:s, s:s, s:s, s?s, s?s, s:o}", "base", &ret->base, "host",
		    &ret->host, "path", &ret->path, "user", &ret->user, "password", &ret->password,
		    "serves", &ret->serves) < 0 ||
		json_array_size(ret->serves) == 0)
		return -EINVAL;
	json_array_foreach((json_t *)(uintptr_t)ret->serves, i, prefix) {
		if (!json_is_string(prefix))
			return -EINVAL;
	}
	return 0;
}

/* The host may have none; `base` is NULL then. */
static int read_optional(json_t *object, struct source *ret)
{
	return json_is_null(object) ? 0 : read_source(object, ret);
}

int sources_read(json_t *root, struct sources *ret, struct err *err)
{
	json_t *apt = json_object_get(root, "apt"), *one;
	int r = read_optional(json_object_get(root, "pypi"), &ret->pypi);
	size_t i;

	ret->root = root;
	if (r == 0)
		r = read_optional(json_object_get(root, "npm"), &ret->npm);
	json_array_foreach(apt, i, one) {
		if (r == 0 && i < SOURCES_APT_MAX)
			r = read_source(one, &ret->apt[ret->n_apt++]);
	}
	return r < 0
		? err_set(err, ERR_INTERNAL, r,
			  "templates/host_config.py does not say where this host gets its packages")
		: 0;
}

void sources_done(struct sources *s)
{
	json_decref(s->root);
	*s = (struct sources){0};
}

int sources_find(struct sources *ret, struct err *err)
{
	_cleanup_free_ char *program = fs_find_own("../templates/host_config.py",
		PANDASTACK_DATA_DIR "/templates/host_config.py");
	const char *const argv[] = {"python3", program, "--indexes", NULL};
	_cleanup_close_ int output = memfd_create("indexes", MFD_CLOEXEC), pidfd = -1;
	const struct spawn sp = {.argv = argv, .fds = {-1, output, STDERR_FILENO}, .n_fds = 3};
	pid_t pid;
	int r;

	if (output < 0)
		return err_set_errno(err, -errno, "can't make a file in memory");
	r = spawn_start(&sp, &pid, &pidfd, err);
	if (r < 0)
		return err_wrap(err, "--package-cache asks Python for this host's package indexes");
	if (spawn_wait(pidfd) != 0)
		return err_set(err, ERR_INTERNAL, -EIO, "%s --indexes failed", program);
	(void)lseek(output, 0, SEEK_SET); /* of a file in memory */
	return sources_read(json_loadfd(output, 0, NULL), ret, err);
}
