/* SPDX-License-Identifier: Apache-2.0 */
/* What several commands do with sandboxes and snapshots: create, delete, find by a prefix, split ID:PATH. */
#include "cli/sandbox.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/text.h"

enum {
	CREATE_TIMEOUT_MS = 180 * 1000,
	DELETE_TIMEOUT_MS = 60 * 1000,
};

int sandbox_create(struct client *client, json_t *body, client_signal_fn *on_signal, void *user,
	json_t **ret, struct err *err)
{
	struct progress progress = progress_init("creating the sandbox…");
	const struct client_request request = {
		.method = "POST",
		.path = "/v1/sandboxes",
		.body = body,
		.on_signal = on_signal,
		.signal_user = user,
		.progress = &progress,
		.timeout_ms = CREATE_TIMEOUT_MS,
	};
	json_t *answer = NULL;
	int r = client_send(client, &request, &answer, err);

	json_decref(body);
	if (r < 0)
		return r;
	if (!json_is_string(json_object_get(answer, "id"))) {
		json_decref(answer);
		return err_set(err, ERR_INTERNAL, -EPROTO,
			"the daemon created a sandbox without id");
	}
	*ret = answer;
	return 0;
}

char *sandbox_path(const char *id, const char *suffix)
{
	_cleanup_free_ char *escaped = client_escape(id);

	return text_format("/v1/sandboxes/%s%s", escaped, suffix);
}

static int ignore_signal(int signal, void *user)
{
	return 0;
}

int sandbox_delete(struct client *client, const char *id, struct err *err)
{
	_cleanup_free_ char *path = sandbox_path(id, "");
	const struct client_request request = {
		.method = "DELETE",
		.path = path,
		.on_signal = ignore_signal,
		.timeout_ms = DELETE_TIMEOUT_MS,
	};

	return client_send(client, &request, NULL, err);
}

/* What has an id. */
struct noun {
	const char *name;
	const char *list; /* the API's list of them */
	enum err_kind not_found;
};

static const struct noun sandboxes = {"sandbox", "/v1/sandboxes", ERR_SANDBOX_NOT_FOUND};
static const struct noun snapshots = {"snapshot", "/v1/snapshots", ERR_SNAPSHOT_NOT_FOUND};

static int match(const struct noun *noun, const json_t *list, const char *prefix, const char **ret,
	struct err *err)
{
	_cleanup_free_ char *clean = text_clean(prefix);
	const char *found = NULL;
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		const char *id = json_string_value(json_object_get(item, "id"));

		if (!id || !*prefix || !str_starts_with(id, prefix))
			continue;
		if (strcmp(id, prefix) == 0) {
			*ret = id;
			return 0;
		}
		if (found)
			return err_set(err, ERR_INVALID, -EINVAL,
				"more than one %s's id begins with '%s': give more of it",
				noun->name, clean);
		found = id;
	}
	if (!found)
		return err_set(err, noun->not_found, -ENOENT, "no %s '%s'; see: pandastack %s list",
			noun->name, clean, noun->name);
	*ret = found;
	return 0;
}

static int resolve(struct client *client, const struct noun *noun, const char *prefix, char **ret,
	struct err *err)
{
	json_t *list = NULL;
	const char *id;
	int r;

	r = client_json(client, "GET", noun->list, NULL, &list, err);
	if (r < 0)
		return r;
	r = match(noun, list, prefix, &id, err);
	if (r == 0)
		*ret = text_format("%s", id);
	json_decref(list);
	return r;
}

int sandbox_match(const json_t *list, const char *prefix, const char **ret, struct err *err)
{
	return match(&sandboxes, list, prefix, ret, err);
}

int snapshot_match(const json_t *list, const char *prefix, const char **ret, struct err *err)
{
	return match(&snapshots, list, prefix, ret, err);
}

int sandbox_resolve(struct client *client, const char *prefix, char **ret, struct err *err)
{
	return resolve(client, &sandboxes, prefix, ret, err);
}

int sandbox_reach(const char *prefix, const char *suffix, struct client **ret, char **ret_path,
	struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *id = NULL;
	int r = client_new(&client, err);

	if (r == 0)
		r = sandbox_resolve(client, prefix, &id, err);
	if (r < 0)
		return r;
	*ret_path = sandbox_path(id, suffix);
	*ret = steal_ptr(&client);
	return 0;
}

int snapshot_resolve(struct client *client, const char *prefix, char **ret, struct err *err)
{
	return resolve(client, &snapshots, prefix, ret, err);
}

bool sandbox_split_path(const char *arg, char **ret_id, const char **ret_path)
{
	size_t n = strcspn(arg, ":/");

	if (n == 0 || arg[n] != ':')
		return false;
	*ret_id = text_format("%.*s", (int)n, arg);
	*ret_path = arg + n + 1;
	return true;
}
