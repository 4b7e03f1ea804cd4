/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon is and with which key: environment, then the user's config file. */
#include "cli/config.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cli/text.h"

#define DEFAULT_API "http://127.0.0.1:8080"

void config_done(struct config *config)
{
	free(config->api);
	free(config->key);
	*config = (struct config){0};
}

static const char *env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static char *config_path(void)
{
	const char *xdg = env("XDG_CONFIG_HOME"), *home = env("HOME");

	if (xdg)
		return text_format("%s/pandastack/config.json", xdg);
	return text_format("%s/.config/pandastack/config.json", home ? home : "");
}

/* The file's object; NULL with 0 where there is no file. */
static int load_file(json_t **ret, struct err *err)
{
	_cleanup_free_ char *path = config_path();
	json_error_t why;
	json_t *root;

	if (access(path, R_OK) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return 0;
		return err_set_errno(err, -errno, "cannot read %s", path);
	}
	root = json_load_file(path, 0, &why);
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, ERR_INVALID, -EINVAL, "%s is not a JSON object: %s", path,
			why.text);
	}
	*ret = root;
	return 0;
}

/* The first of the members that is a string; the published clients know them by several names. */
static const char *member(const json_t *root, const char *const names[3])
{
	for (size_t i = 0; i < 3; i++) {
		const char *value = json_string_value(json_object_get(root, names[i]));

		if (value && *value)
			return value;
	}
	return NULL;
}

/* All that use it rely on a scheme in front. */
static char *normalise(const char *api)
{
	const char *scheme = strstr(api, "://") ? "" : "http://";
	size_t len = strlen(api);

	while (len && api[len - 1] == '/')
		len--;
	if (len > 3 && memcmp(api + len - 3, "/v1", 3) == 0)
		len -= 3;
	return text_format("%s%.*s", scheme, (int)len, api);
}

int config_load(struct config *ret, struct err *err)
{
	static const char *const api_names[] = {"api", "api_url", "apiUrl"};
	static const char *const key_names[] = {"api_key", "token", "apiKey"};
	const char *api = env("PANDASTACK_API"), *key = env("PANDASTACK_API_KEY");
	json_t *root = NULL;

	if (!api || !key) {
		int r = load_file(&root, err);

		if (r < 0)
			return r;
	}
	if (!api)
		api = member(root, api_names);
	if (!key)
		key = member(root, key_names);
	ret->api = normalise(api ? api : DEFAULT_API);
	ret->key = key ? text_format("%s", key) : NULL;
	json_decref(root);
	return 0;
}
