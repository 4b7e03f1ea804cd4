/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers ask of a request. */
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "http/http.h"

const char *http_req_header(const struct http_req *req, const char *name)
{
	return headers_get(&req->headers, name);
}

const char *http_req_proto(const struct http_req *req)
{
	const char *said = http_req_header(req, "X-Forwarded-Proto");

	return said && strcasecmp(said, "https") == 0 ? "https" : "http";
}

void http_req_client(const struct http_req *req, char ret[HTTP_CLIENT_SIZE])
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *a = info->client_addr;
	socklen_t len =
		a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (getnameinfo(a, len, ret, HTTP_CLIENT_SIZE, NULL, 0, NI_NUMERICHOST) != 0)
		(void)snprintf(ret, HTTP_CLIENT_SIZE, "unknown");
}

int http_req_sandbox(struct http_req *req, struct sandbox **ret, struct err *err)
{
	return http_req_sandbox_of(req, req->params[0], ret, err);
}

int http_req_sandbox_of(struct http_req *req, const char *id, struct sandbox **ret, struct err *err)
{
	struct sandbox *sb = core_find(req->core, id, err);

	if (!sb)
		return err->os;
	http_req_use(req, sb);
	*ret = sb;
	return 0;
}

void http_req_use(struct http_req *req, struct sandbox *sb)
{
	if (req->sandbox)
		return;
	req->sandbox = sandbox_ref(sb);
	sandbox_use_begin(sb);
}

void http_req_release(struct http_req *req)
{
	if (!req->sandbox)
		return;
	sandbox_use_end(req->sandbox);
	req->sandbox = sandbox_unref(req->sandbox);
}
