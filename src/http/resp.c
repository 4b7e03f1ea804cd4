/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: JSON, text, streams, and failures as the API words them. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "http/http.h"

int http_resp_json(struct http_resp *resp, int status, json_t *json, struct err *err)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	resp->status = status;
	resp->type = "application/json";
	resp->data = text;
	resp->len = strlen(text);
	return 0;
}

int http_resp_text(struct http_resp *resp, int status, const char *type, struct buf *text,
	struct err *err)
{
	size_t len = text->len;
	char *data = buf_steal(text);

	if (!data)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	resp->status = status;
	resp->type = type;
	resp->data = data;
	resp->len = len;
	return 0;
}

int http_resp_empty(struct http_resp *resp, int status)
{
	resp->status = status;
	return 0;
}

int http_resp_stream(struct http_resp *resp, const char *type, int64_t len,
	const struct http_stream *stream, void *user)
{
	resp->status = 200;
	resp->type = type;
	resp->stream = stream;
	resp->stream_user = user;
	resp->stream_len = len;
	return 0;
}

int http_resp_upgrade(struct http_resp *resp, struct buf *headers,
	const struct http_upgrade *upgrade, void *user)
{
	resp->status = 101;
	resp->headers = *headers;
	*headers = (struct buf){0};
	resp->upgrade = upgrade;
	resp->upgrade_user = user;
	return 0;
}

/*
 * The published clients take an error whose text holds one of these for "not yet up" and repeat the
 * request for 20 s. Only a guest's own words could hold them: join those with underscores.
 */
static void defuse_retry_words(char *msg)
{
	static const char *const words[] = {"connect: connection refused", "no route to host",
		"i/o timeout"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		char *at;

		while ((at = strcasestr(msg, words[i]))) {
			for (size_t k = 0; words[i][k]; k++) {
				if (at[k] == ' ')
					at[k] = '_';
			}
		}
	}
}

void http_resp_error(struct http_resp *resp, const struct http_req *req, const struct err *err)
{
	json_t *details = resp->details, *body;
	const char *allow = resp->allow;
	char msg[sizeof(err->msg)];

	resp->details = NULL;
	http_resp_done(resp);
	resp->allow = allow;
	(void)snprintf(msg, sizeof(msg), "%s", err_msg(err));
	defuse_retry_words(msg);
	body = json_pack("{s:s}", "error", msg);
	if (body && json_object_set_new(body, "code", json_string(err_code(err->kind))) == 0 &&
		json_object_set_new(body, "request_id", json_string(req->id)) == 0 && details)
		(void)json_object_set(body, "details", details); /* left out without memory */
	json_decref(details);
	if (http_resp_json(resp, err_http_status(err->kind), body, NULL) < 0)
		(void)http_resp_empty(resp, err_http_status(ERR_INTERNAL));
}

void http_resp_done(struct http_resp *resp)
{
	if (resp->stream)
		resp->stream->free(resp->stream_user);
	if (resp->upgrade)
		resp->upgrade->free(resp->upgrade_user);
	buf_done(&resp->headers);
	free(resp->data);
	json_decref(resp->details);
	*resp = (struct http_resp){0};
}
