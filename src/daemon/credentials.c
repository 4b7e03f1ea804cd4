/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which clients find the address and the key. */
#include "daemon/credentials.h"

#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <sodium.h>
#include <string.h>

#include "base/fs.h"

enum {
	FILE_BYTES_MAX = 1 << 20,
	FILE_MODE = 0600,
	DIR_MODE = 0700,
};

/* The file's object; an empty one where there is no file. */
static int load(const char *path, json_t **ret, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *root = NULL;
	size_t len;
	int r;

	if (access(path, F_OK) < 0 && errno == ENOENT) {
		*ret = json_object();
		return 0;
	}
	r = fs_read(path, FILE_BYTES_MAX, &text, &len, err);
	if (r < 0)
		return r;
	root = json_loadb(text, len, 0, NULL);
	sodium_memzero(text, len);
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, ERR_INVALID, -EINVAL,
			"%s is not a JSON object: correct or remove it", path);
	}
	*ret = root;
	return 0;
}

/* Published clients know the key by these names; the first that is there counts. */
static const char *find_key(const json_t *root)
{
	static const char *const names[] = {"token", "api_key", "apiKey"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *key = json_string_value(json_object_get(root, names[i]));

		if (key && *key)
			return key;
	}
	return NULL;
}

static int save(const char *path, const json_t *root, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(root, JSON_INDENT(2)), *copy = strdup(path);
	int r;

	if (!text || !copy)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	r = fs_mkdirs(dirname(copy), DIR_MODE, err);
	if (r == 0)
		r = fs_write_atomic(path, text, strlen(text), FILE_MODE, err);
	sodium_memzero(text, strlen(text));
	return r;
}

static int update(json_t *root, const char *path, const char *api_url, struct auth *auth,
	struct err *err)
{
	const char *key = find_key(root);
	char made[AUTH_KEY_SIZE];
	int r = 0;

	if (key && !auth_check(auth, key))
		return err_set(err, ERR_CONFLICT, -EEXIST, "%s holds the key of another service",
			path);
	if (!key) {
		r = auth_make_key(auth, path, made, err);
		if (r == 0 && json_object_set_new(root, "api_key", json_string(made)) < 0)
			r = err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
		sodium_memzero(made, sizeof(made));
	}
	if (r < 0)
		return r;
	if (json_object_set_new(root, "api_url", json_string(api_url)) < 0)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	r = save(path, root, err);
	return r < 0 ? r : !key;
}

int credentials_update(const char *path, const char *api_url, struct auth *auth, struct err *err)
{
	json_t *root = NULL;
	int r = load(path, &root, err);

	if (r == 0)
		r = update(root, path, api_url, auth, err);
	json_decref(root);
	return r;
}
