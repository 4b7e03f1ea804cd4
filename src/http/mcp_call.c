/* SPDX-License-Identifier: Apache-2.0 */
/* A tool, called: the routes of the API do what it says. */
#include "http/mcp_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/fault.h"
#include "base/limits.h"
#include "http/fs_target.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/mcp_sessions.h"

enum {
	KEY_SIZE = LIMIT_MCP_SESSION_BYTES + 32,
	READ_BYTES = 64 << 10,
};

static const char default_template[] = "code-interpreter";

void mcp_call_done(struct mcp_call *c)
{
	sandbox_unref(c->sb);
	mcp_message_done(&c->message);
	*c = (struct mcp_call){0};
}

/* ---- sessions ---- */

/* As the specification has it (Streamable HTTP, "Session Management"). */
static bool is_session_id(const char *s)
{
	size_t len = 0;

	while (s[len] > ' ' && s[len] <= '~')
		len++;
	return len > 0 && len <= LIMIT_MCP_SESSION_BYTES && !s[len];
}

int mcp_session(const struct http_req *req, const char **ret, struct err *err)
{
	const char *session = http_req_header(req, "Mcp-Session-Id");

	if (session && !is_session_id(session))
		return err_set(err, ERR_INVALID, -EINVAL,
			"the Mcp-Session-Id must have 1 to %d visible ASCII characters",
			LIMIT_MCP_SESSION_BYTES);
	*ret = session;
	return 0;
}

/* No client of the API makes such a key by accident. */
static const char *key_of(char dst[KEY_SIZE], const char *session)
{
	(void)snprintf(dst, KEY_SIZE, "mcp session %s", session);
	return dst;
}

int mcp_session_end(struct http_req *req, const char *session, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char key[KEY_SIZE];

	mcp_sessions_end(req->mcp_sessions, session);
	sb = core_find_by_key(req->core, key_of(key, session));
	return sb ? core_delete(req->core, sb, err) : 0;
}

static bool is_over(struct sandbox *sb)
{
	_cleanup_info_ struct sandbox_info info = {0};

	sandbox_get_info(sb, &info);
	return info.state == SANDBOX_FAILED || info.state == SANDBOX_STOPPING ||
		info.state == SANDBOX_DELETED;
}

static int make_sandbox(struct mcp_call *c, const char *key, struct sandbox **ret, struct err *err)
{
	json_t *metadata = json_pack("{s:s}", "made-by", "mcp");
	struct sandbox_spec spec = {
		.template = default_template,
		.metadata = metadata,
		.idempotency_key = key,
	};
	int r = core_create(c->req->core, &spec, ret, err);

	json_decref(metadata);
	c->made = r == 0;
	return r;
}

static int find_or_make(struct mcp_call *c, const char *key, struct sandbox **ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = core_find_by_key(c->req->core, key);
	int r;

	if (sb && !is_over(sb)) {
		*ret = steal_ptr(&sb);
		return 0;
	}
	r = sb ? core_delete(c->req->core, sb, err) : 0; /* its key is free then */
	return r < 0 ? r : make_sandbox(c, key, ret, err);
}

static int session_sandbox(struct mcp_call *c, struct sandbox **ret, struct err *err)
{
	struct mcp_hold hold;
	const char *session;
	char key[KEY_SIZE];
	int r = mcp_session(c->req, &session, err);

	if (r < 0)
		return r;
	if (!session)
		return make_sandbox(c, NULL, ret, err);
	r = mcp_sessions_hold(c->req->mcp_sessions, &hold, session, err);
	if (r < 0)
		return r;
	r = find_or_make(c, key_of(key, session), ret, err);
	mcp_sessions_leave(c->req->mcp_sessions, &hold);
	return r;
}

int mcp_call_sandbox(struct mcp_call *c, struct err *err)
{
	const char *id = c->req->params[0];
	int r = 0;

	if (!id)
		r = json_in_str(c->args, "sandbox_id", LIMIT_PATH_BYTES, &id, err);
	if (r < 0)
		return r;
	if (id)
		return http_req_sandbox_of(c->req, id, &c->sb, err);
	r = session_sandbox(c, &c->sb, err);
	if (r < 0)
		return r;
	fault_point("mcp.sandbox");
	http_req_use(c->req, c->sb);
	return 0;
}

json_t *mcp_call_answer(struct mcp_call *c, struct mcp_content *content)
{
	if (c->sb && content->structured && !json_object_get(content->structured, "sandbox_id"))
		(void)json_object_set_new(content->structured, "sandbox_id",
			json_string(sandbox_id(c->sb)));
	if (c->made) {
		char note[128];

		(void)snprintf(note, sizeof(note),
			"[in a new sandbox; to go on in it pass sandbox_id %s]", sandbox_id(c->sb));
		mcp_content_add_text(content, note);
	}
	return mcp_result(&c->message, mcp_content_result(content));
}

/* ---- routes ---- */

/* A request for a route of a sandbox, in place of the one that came: `body` and `path` (?path=) are borrowed, or NULL. */
static struct http_req inner_request(const struct mcp_call *c, const json_t *body, const char *path)
{
	struct http_req inner = *c->req;

	inner.params[0] = c->sb ? sandbox_id(c->sb) : NULL;
	inner.body = (json_t *)(uintptr_t)body;
	inner.sandbox = NULL;
	inner.upload = NULL;
	inner.url = (struct url){.n_query = path ? 1 : 0};
	inner.url.query[0].key = (char *)(uintptr_t) "path";
	inner.url.query[0].value = (char *)(uintptr_t)path;
	return inner;
}

/* Calls the handler. */
static int call_route(const struct mcp_call *c, http_handler_fn *fn, const json_t *body,
	const char *path, struct http_resp *resp, struct err *err)
{
	struct http_req inner = inner_request(c, body, path);
	int r = fn(&inner, resp, err);

	http_req_release(&inner);
	return r;
}

/* The JSON of a route's answer. */
static int read_answer(const struct http_resp *resp, json_t **ret, struct err *err)
{
	json_t *answer =
		resp->len ? json_loadb(resp->data, resp->len, JSON_ALLOW_NUL, NULL) : json_object();

	if (!answer)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	*ret = answer;
	return 0;
}

static int ask(const struct mcp_call *c, http_handler_fn *fn, const json_t *body, const char *path,
	json_t **ret, struct err *err)
{
	struct http_resp resp = {0};
	int r = call_route(c, fn, body, path, &resp, err);

	if (r == 0)
		r = read_answer(&resp, ret, err);
	http_resp_done(&resp);
	return r;
}

/* ---- tools ---- */

static int answer_json(struct mcp_content *ret, json_t *answer)
{
	*ret = mcp_content_json(answer);
	return 0;
}

static int read_path(const struct mcp_call *c, const char **ret, struct err *err)
{
	int r = json_in_str(c->args, "path", LIMIT_PATH_BYTES, ret, err);

	return r == 0 ? fs_check_path(*ret, "path", err) : r;
}

static int list_dir(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	struct http_resp resp = {0};
	const char *path = "/";
	json_t *answer;
	int r = read_path(c, &path, err);

	if (r == 0)
		r = mcp_call_sandbox(c, err);
	if (r == 0)
		r = call_route(c, h_fs_dir, NULL, path, &resp, err);
	if (r == 0 && resp.len > LIMIT_MCP_LISTING_BYTES)
		r = err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"the list is longer than %zu MiB: list a subfolder, or a part of it with "
			"run_command",
			LIMIT_MCP_LISTING_BYTES >> 20);
	if (r == 0)
		r = read_answer(&resp, &answer, err);
	http_resp_done(&resp);
	return r < 0 ? r : answer_json(ret, answer);
}

static int err_too_long(struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
		"the file is larger than %zu MiB: read a part of it with run_command or run_code",
		LIMIT_MCP_FILE_BYTES >> 20);
}

/* Reads the whole of it. */
static int read_file(const struct mcp_call *c, const char *path, struct buf *data, struct err *err)
{
	struct http_req inner = inner_request(c, NULL, path);
	struct http_resp resp = {0};
	ssize_t n = 1;
	int r = h_fs_read(&inner, &resp, err);

	while (r == 0 && n > 0) {
		if (buf_reserve(data, READ_BYTES) < 0) {
			r = err_too_long(err);
			break;
		}
		n = resp.stream->read(resp.stream_user, data->data + data->len, READ_BYTES);
		if (n < 0)
			r = err_set(err, ERR_INTERNAL, (int)n,
				"the file could not be read to its end");
		else
			data->len += (size_t)n;
	}
	http_req_release(&inner);
	http_resp_done(&resp);
	if (r == 0 && data->len > LIMIT_MCP_FILE_BYTES)
		r = err_too_long(err);
	return r;
}

static struct buf file_buf(void)
{
	return buf_init(LIMIT_MCP_FILE_BYTES + READ_BYTES);
}

static int tool_read_file(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	_cleanup_buf_ struct buf data = file_buf();
	const char *path = NULL;
	int r = read_path(c, &path, err);

	if (r == 0)
		r = mcp_call_sandbox(c, err);
	if (r == 0)
		r = read_file(c, path, &data, err);
	if (r == 0)
		*ret = mcp_content_file(sandbox_id(c->sb), path, data.len ? data.data : "",
			data.len);
	return r;
}

/* The bytes that `content` stands for. */
static int read_content(const struct mcp_call *c, struct buf *ret, struct err *err)
{
	const json_t *content = json_object_get(c->args, "content");
	const char *text = json_string_value(content), *encoding = "utf-8";
	size_t len = json_string_length(content);
	int r = json_in_str(c->args, "encoding", 16, &encoding, err);

	if (r < 0)
		return r;
	if (!text)
		return err_set(err, ERR_INVALID, -EINVAL, "`content` is required: a string");
	if (strcmp(encoding, "base64") != 0 && strcmp(encoding, "utf-8") != 0)
		return err_set(err, ERR_INVALID, -EINVAL, "`encoding` must be utf-8 or base64");
	r = buf_reserve(ret, len + 1);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, r, "out of memory");
	if (strcmp(encoding, "utf-8") == 0)
		(void)buf_append(ret, text, len); /* there is room */
	else if (base64_decode(text, len, ret->data, len, &ret->len) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "`content` is not Base64");
	return 0;
}

static int upload(const struct mcp_call *c, const char *path, const struct buf *data, json_t **ret,
	struct err *err)
{
	struct http_req inner = inner_request(c, NULL, path);
	struct http_resp resp = {0};
	int r = h_fs_upload.begin(&inner, err);

	if (r == 0 && data->len)
		r = h_fs_upload.chunk(&inner, data->data, data->len, err);
	if (r == 0)
		r = h_fs_write(&inner, &resp, err);
	if (r == 0)
		*ret = json_loadb(resp.data, resp.len, 0, NULL);
	h_fs_upload.free(inner.upload);
	http_req_release(&inner);
	http_resp_done(&resp);
	return r;
}

static int write_file(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	_cleanup_buf_ struct buf data = buf_init(LIMIT_JSON_BODY_BYTES);
	const char *path = NULL;
	json_t *answer;
	int r = read_path(c, &path, err);

	if (r == 0)
		r = read_content(c, &data, err);
	if (r == 0)
		r = mcp_call_sandbox(c, err);
	if (r == 0)
		r = upload(c, path, &data, &answer, err);
	return r < 0 ? r : answer_json(ret, answer);
}

static int snapshot(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	json_t *answer;
	int r = mcp_call_sandbox(c, err);

	if (r == 0)
		r = ask(c, h_snapshot_create, NULL, NULL, &answer, err);
	return r < 0 ? r : answer_json(ret, answer);
}

/* With the tool's arguments and no other that the route has: the network is not for a model to choose. */
static int create_sandbox(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	const json_t *args = c->args;
	json_t *body =
		json_pack("{s:O*, s:O*, s:O*, s:O*}", "template", json_object_get(args, "template"),
			"from_snapshot", json_object_get(args, "from_snapshot"), "ttl_seconds",
			json_object_get(args, "ttl_seconds"), "metadata",
			json_object_get(args, "metadata"));
	json_t *answer;
	int r;

	if (!json_object_get(body, "template") && !json_object_get(body, "from_snapshot"))
		(void)json_object_set_new(body, "template", json_string(default_template));
	r = ask(c, h_sandbox_create, body, NULL, &answer, err);
	json_decref(body);
	if (r < 0)
		return r;
	(void)json_object_set(answer, "sandbox_id", json_object_get(answer, "id"));
	return answer_json(ret, answer);
}

static int list_sandboxes(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	json_t *answer;
	int r = ask(c, h_sandbox_list, NULL, NULL, &answer, err);

	return r < 0 ? r : answer_json(ret, json_pack("{s:o}", "sandboxes", answer));
}

static int fork_sandbox(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	json_t *answer;
	int r = mcp_call_sandbox(c, err);

	if (r == 0)
		r = ask(c, h_fork, c->args, NULL, &answer, err);
	return r < 0 ? r : answer_json(ret, answer);
}

static int delete_sandbox(struct mcp_call *c, struct mcp_content *ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *id = NULL;
	int r = json_in_str(c->args, "sandbox_id", LIMIT_PATH_BYTES, &id, err);

	if (r == 0 && !id)
		r = err_set(err, ERR_INVALID, -EINVAL, "`sandbox_id` is required");
	if (r < 0)
		return r;
	sb = core_find(c->req->core, id, err);
	r = sb ? core_delete(c->req->core, sb, err) : err->os;
	return r < 0 ? r : answer_json(ret, json_pack("{s:s}", "sandbox_id", id));
}

int mcp_call_tool(struct mcp_call *c, enum mcp_tool tool, struct mcp_content *ret, struct err *err)
{
	static int (*const fns[_MCP_TOOL_MAX])(struct mcp_call * c, struct mcp_content * ret,
		struct err * err) = {
		[MCP_TOOL_READ_FILE] = tool_read_file,
		[MCP_TOOL_WRITE_FILE] = write_file,
		[MCP_TOOL_LIST_DIR] = list_dir,
		[MCP_TOOL_SNAPSHOT] = snapshot,
		[MCP_TOOL_CREATE_SANDBOX] = create_sandbox,
		[MCP_TOOL_LIST_SANDBOXES] = list_sandboxes,
		[MCP_TOOL_FORK_SANDBOX] = fork_sandbox,
		[MCP_TOOL_DELETE_SANDBOX] = delete_sandbox,
	};

	return fns[tool](c, ret, err);
}

/* ---- resources ---- */

int mcp_call_read(struct mcp_call *c, json_t **ret, struct err *err)
{
	_cleanup_buf_ struct buf data = file_buf();
	_cleanup_free_ char *id = NULL, *path = NULL;
	const char *uri = json_string_value(json_object_get(c->message.params, "uri"));
	int r = uri ? mcp_file_uri_parse(uri, &id, &path) : -EINVAL;

	if (r < 0)
		return err_set(err, ERR_INVALID, r, "`uri` must be sandbox://SANDBOX_ID/PATH");
	if (c->req->params[0] && strcmp(c->req->params[0], id) != 0)
		return err_set(err, ERR_INVALID, -EINVAL, "`uri` is of another sandbox");
	r = http_req_sandbox_of(c->req, id, &c->sb, err);
	if (r == 0)
		r = read_file(c, path, &data, err);
	if (r == 0)
		*ret = json_pack("{s:[o], s:i, s:s}", "contents",
			mcp_resource(uri, data.len ? data.data : "", data.len), "ttlMs", 0,
			"cacheScope", "private");
	return r;
}
