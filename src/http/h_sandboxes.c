/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes: create, list, get, delete. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/egress.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/sandbox_json.h"

enum { IDEMPOTENCY_KEY_BYTES_MAX = 255 };

/*
 * Members that only other engines of this API fill (addresses, devices) are there and empty:
 * clients show them. cpu and memory_mb must never be null.
 */
json_t *sandbox_json(struct sandbox *sb)
{
	_cleanup_info_ struct sandbox_info info = {0};
	char created[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];

	sandbox_get_info(sb, &info);
	return json_pack(
		"{s:s, s:s, s:s, s:s*, s:O, s:i, s:I, s:s, s:s, s:s, s:I, s:s, s:b, s:I, s:I, s:s, s:s*, "
		"s:s*, s:s*, s:O, s:s, s:s, s:s, s:i}",
		"id", info.id, "template", info.template, "status", sandbox_state_name(info.state),
		"failure", info.failure, "metadata", info.metadata, "cpu", (int)info.cpus,
		"memory_mb", (json_int_t)(info.memory_bytes >> 20), "engine", info.engine, "accel",
		accel_name(info.accel), "isolation", info.isolation, "boot_ms",
		(json_int_t)info.boot_ms, "boot_mode", boot_mode_name(info.boot_mode), "persistent",
		info.persistent, "ttl_seconds", (json_int_t)info.ttl_seconds, "idle_seconds",
		(json_int_t)info.idle_seconds, "created_at",
		clock_format_rfc3339(created, info.created_ms), "expires_at",
		info.expires_ms ? clock_format_rfc3339(expires, info.expires_ms) : NULL, "parent",
		info.parent, "from_snapshot", info.from_snapshot, "network", info.network,
		"guest_ip", "", "host_tap", "", "mac", "", "vsock_cid", 0);
}

/* What the API has and this server does not yet: refused rather than forgotten. */
static int refuse_unbuilt(const json_t *body, struct err *err)
{
	if (json_array_size(json_object_get(body, "volumes")) > 0)
		return err_set(err, ERR_UNSUPPORTED, -ENOSYS,
			"not supported by this server: `volumes`");
	return 0;
}

int read_metadata(const json_t *body, json_t **ret, struct err *err)
{
	static const struct json_in_map_limits limits = {
		.entries = LIMIT_METADATA_ENTRIES,
		.key_bytes = LIMIT_METADATA_KEY_BYTES,
		.value_bytes = LIMIT_METADATA_VALUE_BYTES,
	};

	return json_in_map(body, "metadata", &limits, ret, err);
}

static int read_network(const json_t *body, const json_t **ret, struct err *err)
{
	const json_t *network = json_object_get(body, "network");

	if (!network || json_is_null(network))
		return 0;
	*ret = network;
	return egress_check(network, err);
}

static int read_spec(const struct http_req *req, struct sandbox_spec *spec, struct err *err)
{
	json_t *metadata = NULL, *env = NULL;
	const char *key = http_req_header(req, "Idempotency-Key");
	int r = refuse_unbuilt(req->body, err);

	if (r == 0)
		r = json_in_str(req->body, "template", LIMIT_PATH_BYTES, &spec->template, err);
	if (r == 0)
		r = json_in_int(req->body, "ttl_seconds", 0, LIMIT_TTL_SECONDS, &spec->ttl_seconds,
			err);
	if (r == 0)
		r = json_in_int(req->body, "idle_seconds", 1, LIMIT_TTL_SECONDS,
			&spec->idle_seconds, err);
	if (r == 0)
		r = json_in_bool(req->body, "persistent", &spec->persistent, err);
	if (r == 0)
		r = json_in_str(req->body, "from_snapshot", LIMIT_PATH_BYTES, &spec->from_snapshot,
			err);
	if (r == 0)
		r = read_metadata(req->body, &metadata, err);
	if (r == 0)
		r = json_in_env(req->body, "env", &env, err);
	if (r == 0)
		r = read_network(req->body, &spec->network, err);
	if (r < 0)
		return r;
	if (spec->from_snapshot && !*spec->from_snapshot)
		spec->from_snapshot = NULL;
	if (spec->from_snapshot && env)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`env` is part of the snapshot: it can't be given beside `from_snapshot`");
	if (!spec->from_snapshot && (!spec->template || !*spec->template))
		return err_set(err, ERR_INVALID, -EINVAL,
			"`template` is required: the name of a template, such as "
			"\"code-interpreter\"; or `from_snapshot`");
	if (key &&
		(!*key || strlen(key) > IDEMPOTENCY_KEY_BYTES_MAX ||
			!str_is_utf8(key, strlen(key))))
		return err_set(err, ERR_INVALID, -EINVAL,
			"the Idempotency-Key must be 1 to %d bytes of UTF-8",
			IDEMPOTENCY_KEY_BYTES_MAX);
	spec->metadata = metadata;
	spec->env = env;
	spec->idempotency_key = key;
	return 0;
}

int h_sandbox_create(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct sandbox_spec spec = {0};
	int r = read_spec(req, &spec, err);

	if (r == 0)
		r = core_create(req->core, &spec, &sb, err);
	return r < 0 ? r : http_resp_json(resp, 201, sandbox_json(sb), err);
}

struct list_query {
	const struct url *url;
	const char *status; /* NULL: any */
	json_t *list;
};

static bool wanted(const struct list_query *q, const json_t *sandbox)
{
	json_t *metadata = json_object_get(sandbox, "metadata");

	if (q->status &&
		strcmp(q->status, json_string_value(json_object_get(sandbox, "status"))) != 0)
		return false;
	for (size_t i = 0; i < q->url->n_query; i++) {
		const char *key = q->url->query[i].key, *value;

		if (!str_starts_with(key, "metadata."))
			continue;
		value = json_string_value(json_object_get(metadata, key + strlen("metadata.")));
		if (!value || strcmp(value, q->url->query[i].value) != 0)
			return false;
	}
	return true;
}

static int add_to_list(struct sandbox *sb, void *user)
{
	struct list_query *q = user;
	json_t *sandbox = sandbox_json(sb);

	if (!sandbox)
		return -ENOMEM;
	if (wanted(q, sandbox))
		return json_array_append_new(q->list, sandbox);
	json_decref(sandbox);
	return 0;
}

int h_sandbox_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct list_query q = {.url = &req->url, .status = url_query(&req->url, "status")};
	enum sandbox_state state;

	if (q.status && sandbox_state_from_name(q.status, &state) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`status` must be creating, running, paused, hibernating, "
			"hibernated, waking, failed or stopping");
	q.list = json_array();
	core_each(req->core, add_to_list, &q);
	return http_resp_json(resp, 200, q.list, err);
}

int h_sandbox_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	return r < 0 ? r : http_resp_json(resp, 200, sandbox_json(sb), err);
}

int h_sandbox_delete(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = core_find(req->core, req->params[0], err);
	int r = sb ? core_delete(req->core, sb, err) : err->os;

	return r < 0 ? r : http_resp_empty(resp, 204);
}
