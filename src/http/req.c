/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers ask of a request. */
#include <microhttpd.h>

#include "http/http.h"

const char *http_req_header(const struct http_req *req, const char *name)
{
	return MHD_lookup_connection_value(req->conn, MHD_HEADER_KIND, name);
}

int http_req_sandbox(struct http_req *req, struct sandbox **ret, struct err *err)
{
	struct sandbox *sb = core_find(req->core, req->params[0], err);

	if (!sb)
		return err->os;
	if (!req->sandbox) {
		req->sandbox = sandbox_ref(sb);
		sandbox_use_begin(sb);
	}
	*ret = sb;
	return 0;
}

void http_req_release(struct http_req *req)
{
	if (!req->sandbox)
		return;
	sandbox_use_end(req->sandbox);
	req->sandbox = sandbox_unref(req->sandbox);
}
