/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy to a server in a sandbox: any method, bodies and answers as they come, other protocols after a 101. */
/*
 * Theory of operation
 * -------------------
 * The pieces are elsewhere: who may (access.h), what is passed on (forward.h), the server's side (upstream.h). Here they
 * follow the course of a request: begin() sends the head when the client's was read, chunk() the body as it comes,
 * h_proxy() waits for the head of the answer, and the answer's body is read when the client's connection wants more.
 *
 * The library answers a request only when it has all of its body. What a server says before that is kept for then, in the
 * stream's window; what is left of the body is dropped. A server and a client that both want to go on talking are not
 * served by this, but after an upgrade.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "http/access.h"
#include "http/bridge.h"
#include "http/forward.h"
#include "http/handlers.h"
#include "http/upstream.h"

enum {
	ANSWER_MS = 300 * 1000, /* until a server has begun to answer */
	STALL_MS = 60 * 1000,   /* it takes nothing of the request's body for so long */
	HEAD_BYTES_MAX = 256 << 10,
};

struct proxy {
	struct access access;
	char *prefix; /* owned */
	char client[HTTP_CLIENT_SIZE];
	struct forward forward;
	struct upstream *
		upstream; /* owned; NULL where the client is sent elsewhere, and once the answer has it */
};

static void proxy_free(void *upload)
{
	struct proxy *p = upload;

	if (!p)
		return;
	upstream_close(p->upstream);
	access_done(&p->access);
	free(p->prefix);
	free(p);
}

/* ---- the request ---- */

static void describe(struct http_req *req, struct proxy *p)
{
	const char *length = headers_get(&req->headers, "Content-Length");
	const char *host = headers_get(&req->headers, "Host");
	struct forward *f = &p->forward;

	http_req_client(req, p->client);
	*f = (struct forward){
		.method = req->method,
		.target = p->access.target,
		.headers = &req->headers,
		.port = p->access.port,
		.host = host ? host : "",
		.proto = http_req_proto(req),
		.prefix = p->prefix,
		.client = p->client,
		.authorization = p->access.authorization,
	};
	if (headers_get(&req->headers, "Transfer-Encoding"))
		f->body = FORWARD_CHUNKED;
	else if (length && parse_u64(length, 0, UINT64_MAX, &f->body_len) == 0)
		f->body = FORWARD_LENGTH;
	f->upgrade = headers_get(&req->headers, "Upgrade") &&
		headers_have(&req->headers, "Connection", "upgrade") &&
		(f->body == FORWARD_NO_BODY || f->body_len == 0) && f->body != FORWARD_CHUNKED;
}

/* Relative links of a page need the slash behind the port. */
static void add_slash(const struct http_req *req, struct proxy *p)
{
	struct access *a = &p->access;

	if (a->redirect || req->by_host || *a->target == '/' || strcmp(req->method, "GET") != 0)
		return;
	if (asprintf(&a->redirect, "%s/%s", p->prefix, a->target) < 0)
		abort();
}

static int begin(struct http_req *req, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_buf_ struct buf head = buf_init(HEAD_BYTES_MAX);
	struct proxy *p = xnew(struct proxy);
	struct link_stream *stream = NULL;
	int r;

	req->upload = p;
	/* A page behind it would have the origin of the API. */
	if (!req->by_host && req->rest == 0)
		return err_set(err, ERR_NOT_FOUND, -ENOENT,
			"not found: what is before the port or the token in the path of a server "
			"takes no %%-escapes");
	r = access_check(req, &p->access, err);
	if (r < 0)
		return r;
	p->prefix = strndup(req->target, req->rest);
	if (!p->prefix)
		abort();
	add_slash(req, p);
	if (p->access.redirect)
		return 0;
	describe(req, p);
	r = forward_request(&p->forward, &head, err);
	if (r == 0)
		r = http_req_sandbox_of(req, p->access.id, &sb, err);
	if (r == 0)
		r = sandbox_open(sb,
			json_pack("{s:s, s:i}", "op", "connect", "port", (int)p->access.port),
			&stream, err);
	if (r < 0)
		return r;
	p->upstream = upstream_new(stream, sb, p->access.port, req->client_fd);
	upstream_expect(p->upstream, strcmp(req->method, "HEAD") == 0, p->forward.upgrade);
	return upstream_send(p->upstream, head.data, head.len, STALL_MS, err);
}

static int send_piece(struct proxy *p, const void *data, size_t len, struct err *err)
{
	return upstream_send(p->upstream, data, len, STALL_MS, err);
}

static int chunk(struct http_req *req, const void *data, size_t len, struct err *err)
{
	struct proxy *p = req->upload;
	bool chunked = p->forward.body == FORWARD_CHUNKED;
	char size[24];
	int r = 0;

	if (!p->upstream)
		return 0;
	if (chunked)
		r = send_piece(p, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len), err);
	if (r == 0)
		r = send_piece(p, data, len, err);
	if (r == 0 && chunked)
		r = send_piece(p, "\r\n", 2, err);
	return r;
}

const struct http_upload h_proxy_upload = {.begin = begin, .chunk = chunk, .free = proxy_free};

/* ---- the answer ---- */

static ssize_t answer_read(void *user, char *dst, size_t max)
{
	return upstream_read(user, dst, max);
}

static void answer_free(void *user)
{
	upstream_close(user);
}

static void upgraded_run(void *user, int fd, const void *early, size_t len)
{
	size_t rest_len;
	const void *rest = upstream_rest(user, &rest_len);

	bridge_run(upstream_stream(user), fd, early, len, rest, rest_len);
}

static int send_elsewhere(const struct access *a, struct http_resp *resp, struct err *err)
{
	struct buf headers = buf_init(HEAD_BYTES_MAX);
	int r = headers_add(&headers, "Location", 8, a->redirect, strlen(a->redirect));

	if (r == 0 && a->cookie)
		r = headers_add(&headers, "Set-Cookie", 10, a->cookie, strlen(a->cookie));
	if (r == 0)
		r = headers_add(&headers, "Cache-Control", 13, "no-store", 8);
	resp->headers = headers;
	if (r < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"the target of a request to a port must be a path, of printable characters");
	return http_resp_empty(resp, 303);
}

int h_proxy(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct http_stream stream = {.read = answer_read, .free = answer_free};
	static const struct http_upgrade upgrade = {.run = upgraded_run, .free = answer_free};
	struct proxy *p = req->upload;
	struct buf headers = buf_init(2 * LIMIT_ANSWER_HEAD_BYTES);
	struct upstream_head head;
	int r = 0;

	if (!p->upstream)
		return send_elsewhere(&p->access, resp, err);
	if (p->forward.body == FORWARD_CHUNKED)
		r = send_piece(p, "0\r\n\r\n", 5, err);
	if (r == 0)
		r = upstream_wait_head(p->upstream, ANSWER_MS, &head, err);
	if (r == 0 && forward_answer(&p->forward, head.headers, &headers) < 0)
		r = err_set(err, ERR_UPSTREAM, -EMSGSIZE,
			"upstream: the headers of its answer are too long");
	if (r < 0) {
		buf_done(&headers);
		return r;
	}
	if (head.upgraded) {
		const char *protocol = headers_get(head.headers, "Upgrade");

		(void)headers_add(&headers, "Upgrade", 7, protocol, strlen(protocol)); /* it fits */
		return http_resp_upgrade(resp, &headers, &upgrade, steal_ptr(&p->upstream));
	}
	resp->headers = headers;
	(void)http_resp_stream(resp, NULL, head.body_len, &stream, steal_ptr(&p->upstream));
	resp->status = head.status;
	return 0;
}
