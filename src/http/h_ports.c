/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox: what listens, what its user calls it, and links to it that need no key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/preview.h"

enum {
	CALL_TIMEOUT_MS = 30000,
	KEY_SIZE = 16,
};

/* A label is metadata: "port.8080" → "web". */
static const char key_prefix[] = "port.";

static const char *make_key(char dst[KEY_SIZE], uint64_t port)
{
	(void)snprintf(dst, KEY_SIZE, "%s%u", key_prefix, (unsigned int)port);
	return dst;
}

/* The port that this entry of the metadata labels; 0: none. */
static uint64_t port_of_key(const char *key)
{
	uint64_t port = 0;

	if (str_starts_with(key, key_prefix))
		(void)parse_u64(key + strlen(key_prefix), 1, UINT16_MAX, &port);
	return port;
}

static json_t *port_json(const char *id, uint64_t port, const char *label, bool listening)
{
	return json_pack("{s:I, s:s*, s:b, s:s, s:o}", "port", (json_int_t)port, "label",
		label && *label ? label : NULL, "listening", listening, "source",
		label ? "user" : "detected", "proxy_url",
		json_sprintf("/v1/sandboxes/%s/proxy/%d/", id, (int)port));
}

static int read_port(const json_t *body, int64_t *ret, struct err *err)
{
	int r;

	*ret = 0;
	r = json_in_int(body, "port", 1, UINT16_MAX, ret, err);
	if (r == 0 && *ret == 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`port` is required: a number between 1 and 65535");
	return r;
}

/* ---- the list ---- */

/* What listens and what has a label, in the order of the ports. */
static json_t *merge(json_t *listening, json_t *metadata, const char *id)
{
	enum { LISTENS = 1, LABELLED = 2 };
	uint8_t ports[UINT16_MAX + 1] = {0};
	json_t *list = json_array(), *v;
	char key[KEY_SIZE];
	const char *name;
	size_t i;

	json_array_foreach(listening, i, v) {
		json_int_t port = json_integer_value(v);

		if (port >= 1 && port <= UINT16_MAX)
			ports[port] |= LISTENS; /* the guest may say anything, and twice */
	}
	json_object_foreach(metadata, name, v)
		ports[port_of_key(name)] |= LABELLED;
	for (uint64_t port = 1; port <= UINT16_MAX; port++) {
		const char *label = NULL;

		if (!ports[port])
			continue;
		if (ports[port] & LABELLED)
			label = json_string_value(json_object_get(metadata, make_key(key, port)));
		(void)json_array_append_new(list,
			port_json(id, port, label, ports[port] & LISTENS));
	}
	return list;
}

int h_ports_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	json_t *ok = NULL, *metadata, *list;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s}", "op", "ports"), CALL_TIMEOUT_MS,
			req->client_fd, &ok, err);
	if (r < 0)
		return r;
	metadata = sandbox_metadata(sb);
	list = merge(json_object_get(ok, "ports"), metadata, sandbox_id(sb));
	json_decref(metadata);
	json_decref(ok);
	return http_resp_json(resp, 200, list, err);
}

/* ---- labels ---- */

int h_ports_add(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *label = "";
	char key[KEY_SIZE];
	int64_t port;
	int r = read_port(req->body, &port, err);

	if (r == 0)
		r = json_in_str(req->body, "label", LIMIT_METADATA_VALUE_BYTES, &label, err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r == 0)
		r = core_set_metadata(req->core, sb, make_key(key, (uint64_t)port), label, err);
	if (r < 0)
		return r;
	return http_resp_json(resp, 201, port_json(sandbox_id(sb), (uint64_t)port, label, false),
		err);
}

static int remove_label(struct http_req *req, uint64_t port, struct http_resp *resp,
	struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char key[KEY_SIZE];
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = core_set_metadata(req->core, sb, make_key(key, port), NULL, err);
	return r < 0 ? r : http_resp_empty(resp, 204);
}

int h_ports_remove(struct http_req *req, struct http_resp *resp, struct err *err)
{
	uint64_t port;

	if (parse_u64(req->params[1], 1, UINT16_MAX, &port) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "a port is a number between 1 and 65535");
	return remove_label(req, port, resp, err);
}

/* ---- links ---- */

/* Absolute paths; an absent slash is added. */
static int read_paths(const json_t *body, json_t *ret, struct err *err)
{
	json_t *paths = json_object_get(body, "paths"), *v;
	size_t i;

	if (!paths || json_is_null(paths))
		return 0;
	if (!json_is_array(paths) || json_array_size(paths) > PREVIEW_PATHS_MAX)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`paths` must be an array of at most %d paths", PREVIEW_PATHS_MAX);
	json_array_foreach(paths, i, v) {
		const char *path = json_string_value(v);

		if (!path || !*path || json_string_length(v) > PREVIEW_PATH_BYTES_MAX ||
			strlen(path) != json_string_length(v))
			return err_set(err, ERR_INVALID, -EINVAL,
				"`paths` must hold paths of at most %d bytes",
				PREVIEW_PATH_BYTES_MAX);
		(void)json_array_append_new(ret,
			json_sprintf("%s%s", *path == '/' ? "" : "/", path));
	}
	return 0;
}

static json_t *preview_json(const struct http_req *req, const struct preview *p)
{
	_cleanup_free_ char *token = preview_sign(req->preview_key, p);
	const char *host = http_req_header(req, "Host");
	char expires[CLOCK_TEXT_SIZE];

	return json_pack("{s:o, s:s, s:s, s:i, s:O, s:s}", "url",
		json_sprintf("%s://%s/v1/p/%s/", http_req_proto(req), host ? host : "", token),
		"token", token, "sandbox_id", p->id, "port", (int)p->port, "paths", p->paths,
		"expires_at", clock_format_rfc3339(expires, p->expires_s * 1000));
}

int h_preview(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_preview_ struct preview p = {.paths = json_array()};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int64_t port, ttl = 0;
	int r = read_port(req->body, &port, err);

	if (r == 0)
		r = json_in_int(req->body, "ttl_seconds", 0, PREVIEW_TTL_SECONDS_MAX, &ttl, err);
	if (r == 0)
		r = read_paths(req->body, p.paths, err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r < 0)
		return r;
	(void)snprintf(p.id, sizeof(p.id), "%s", sandbox_id(sb));
	p.port = (uint16_t)port;
	p.expires_s = clock_real_ms() / 1000 + (ttl ? ttl : PREVIEW_TTL_SECONDS);
	return http_resp_json(resp, 200, preview_json(req, &p), err);
}
