/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Model Context Protocol over HTTP (docs/mcp.md): messages in, answers out. One message a request; nothing is kept from one
 * to the next but the sandbox of a session (mcp_call.h), and that one has ended.
 *
 * Of what can go wrong, HTTP tells what is wrong with the request and the protocol what is wrong with the message; what a tool
 * could not do is its result, for the model to read.
 */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "http/handlers.h"
#include "http/mcp_call.h"
#include "http/mcp_calls.h"
#include "http/mcp_run.h"
#include "http/mcp_sessions.h"
#include "http/origin.h"
#include "http/session_id.h"
#include "mcp/methods.h"

/* ---- the body: as it came, for JSON that is wrong is answered in the protocol's words ---- */

static int upload_begin(struct http_req *req, struct err *err)
{
	struct buf *body = xnew(struct buf);

	*body = buf_init(LIMIT_JSON_BODY_BYTES);
	req->upload = body;
	return origin_check(req, err);
}

static int upload_chunk(struct http_req *req, const void *data, size_t len, struct err *err)
{
	if (buf_append(req->upload, data, len) < 0)
		return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
			"the message is too large: at most %zu bytes are taken",
			LIMIT_JSON_BODY_BYTES);
	return 0;
}

static void upload_free(void *user)
{
	if (user)
		buf_done(user);
	free(user);
}

const struct http_upload h_mcp_upload = {
	.begin = upload_begin,
	.chunk = upload_chunk,
	.free = upload_free,
};

/* ---- answers ---- */

static int answer(struct http_resp *resp, int status, json_t *body, struct err *err)
{
	return http_resp_json(resp, status, body, err);
}

/* A session begins: its name goes with the answer, unless the client has given one. */
static int name_session(const struct http_req *req, struct http_resp *resp, struct err *err)
{
	const char *session;
	char id[SESSION_ID_SIZE];
	int r = mcp_session(req, &session, err);

	if (r < 0 || session)
		return r;
	session_id_make(id);
	resp->headers = buf_init(LIMIT_ANSWER_HEAD_BYTES);
	if (headers_add(&resp->headers, "Mcp-Session-Id", strlen("Mcp-Session-Id"), id,
		    strlen(id)) < 0 ||
		headers_add(&resp->headers, "Content-Type", strlen("Content-Type"),
			"application/json", strlen("application/json")) < 0)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return 0;
}

static int call_tool(struct mcp_call *c, enum mcp_tool tool, struct http_resp *resp,
	struct err *err)
{
	struct mcp_content content = {0};
	int r;

	if (mcp_runs(tool)) {
		r = mcp_run(c, tool, resp, err);
		if (r == 0)
			return 0;
	} else {
		r = mcp_call_tool(c, tool, &content, err);
	}
	if (r == -ECONNRESET)
		return r;
	if (r < 0)
		content = mcp_content_failure(err_msg(err));
	return answer(resp, 200, mcp_call_answer(c, &content), err);
}

static int do_call(struct mcp_call *c, enum mcp_scope scope, struct http_resp *resp,
	struct err *err)
{
	const json_t *params = c->message.params;
	const char *name = json_string_value(json_object_get(params, "name"));
	int tool = name ? mcp_tool_find(name, scope) : -ENOENT;

	c->args = json_object_get(params, "arguments");
	if (tool < 0 || (c->args && !json_is_object(c->args)))
		return answer(resp, 200,
			mcp_error(c->message.id, MCP_INVALID_PARAMS,
				tool < 0 ? "there is no such tool: see tools/list"
					 : "`arguments` must be an object",
				NULL),
			err);
	return call_tool(c, (enum mcp_tool)tool, resp, err);
}

/* What a resource that can't be read is to the protocol. */
static enum mcp_code code_of(const struct err *err, bool modern)
{
	unsigned int status = err_http_status(err->kind);

	if (status == 404)
		return modern ? MCP_INVALID_PARAMS : MCP_NO_RESOURCE;
	return status < 500 ? MCP_INVALID_PARAMS : MCP_INTERNAL_ERROR;
}

static int do_read(struct mcp_call *c, struct http_resp *resp, struct err *err)
{
	json_t *uri = json_object_get(c->message.params, "uri"), *result;
	int r = mcp_call_read(c, &result, err);

	if (r == -ECONNRESET)
		return r;
	if (r < 0)
		return answer(resp, 200,
			mcp_error(c->message.id, code_of(err, c->message.modern), err_msg(err),
				json_pack("{s:O*}", "uri", uri)),
			err);
	return answer(resp, 200, mcp_result(&c->message, result), err);
}

static int do_notification(const struct mcp_call *c, struct http_resp *resp, struct err *err)
{
	const json_t *id = json_object_get(c->message.params, "requestId");
	const char *session;
	int r = mcp_session(c->req, &session, err);

	if (r < 0)
		return r;
	if (session && strcmp(c->message.method, "notifications/cancelled") == 0)
		mcp_calls_cancel(c->req->mcp_calls, session, id);
	return http_resp_empty(resp, 202);
}

static int do_message(struct mcp_call *c, struct http_resp *resp, struct err *err)
{
	enum mcp_scope scope = c->req->params[0] ? MCP_SCOPE_ANYWHERE : MCP_SCOPE_DAEMON;
	struct mcp_answer done;
	int r = 0;

	switch (mcp_answer(&c->message, scope, &done)) {
	case MCP_CALL:
		return do_call(c, scope, resp, err);
	case MCP_READ:
		return do_read(c, resp, err);
	case MCP_DONE:
		break;
	}
	if (!c->message.id)
		return do_notification(c, resp, err);
	if (strcmp(c->message.method, "initialize") == 0 && done.status == 200)
		r = name_session(c->req, resp, err);
	if (r < 0) {
		json_decref(done.body);
		return r;
	}
	return answer(resp, done.status, done.body, err);
}

int h_mcp(struct http_req *req, struct http_resp *resp, struct err *err)
{
	const struct buf *body = req->upload;
	const struct mcp_headers headers = {
		.version = http_req_header(req, "MCP-Protocol-Version"),
		.method = http_req_header(req, "Mcp-Method"),
		.name = http_req_header(req, "Mcp-Name"),
	};
	struct mcp_call call = {.req = req};
	struct mcp_answer refusal;
	const char *session;
	int r = mcp_session(req, &session, err);

	if (r == 0 && session)
		r = mcp_sessions_check(req->mcp_sessions, session, err);
	if (r < 0)
		return r;
	if (mcp_message_read(body->data ? body->data : "", body->len, &headers, &call.message,
		    &refusal) < 0)
		return answer(resp, refusal.status, refusal.body, err);
	r = do_message(&call, resp, err);
	mcp_call_done(&call);
	return r;
}

int h_mcp_delete(struct http_req *req, struct http_resp *resp, struct err *err)
{
	const char *session;
	int r = origin_check(req, err);

	if (r == 0)
		r = mcp_session(req, &session, err);
	if (r == 0 && !session)
		r = err_set(err, ERR_METHOD, -EPERM,
			"DELETE ends a session: it needs the header Mcp-Session-Id");
	if (r == 0)
		r = mcp_session_end(req, session, err);
	return r < 0 ? r : http_resp_empty(resp, 204);
}
