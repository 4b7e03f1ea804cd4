/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and answers through the proxy: lines of method, target, host, and headers. Whatever is passed on, another
 * parser reads as one request without anything behind it; whatever comes back is well-formed.
 */
#include <llhttp.h>
#include <stdint.h>
#include <string.h>

#include "http/forward.h"
#include "http/headers.h"

static int heads;

static int on_head(llhttp_t *parser)
{
	heads++;
	return parser->content_length == 5 || (parser->flags & F_CHUNKED) ? 1 : 0;
}

static void read_as_one_request(const struct buf *text)
{
	static const llhttp_settings_t settings = {.on_headers_complete = on_head};
	llhttp_t parser;
	llhttp_errno_t r;

	heads = 0;
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	r = llhttp_execute(&parser, text->data, text->len);
	/* Methods and targets that it does not know are not what this is about. */
	if (r == HPE_INVALID_METHOD || r == HPE_INVALID_URL)
		return;
	assert(r == HPE_OK || r == HPE_PAUSED_UPGRADE);
	assert(heads == 1);
	assert(memmem(text->data, text->len, "\r\n\r\n", 4) == text->data + text->len - 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	_cleanup_buf_ struct buf list = buf_init(1 << 16), out = buf_init(1 << 18),
				 back = buf_init(1 << 18);
	struct forward f = {.headers = &list, .port = 8000, .client = "::1", .proto = "http"};
	char *rest = text, *line;
	struct http_header h;

	f.method = strsep(&rest, "\n");
	f.target = rest ? strsep(&rest, "\n") : "";
	f.host = "x";
	while ((line = rest ? strsep(&rest, "\n") : NULL)) {
		char *value = strchr(line, ':');

		if (value)
			(void)headers_add(&list, line, (size_t)(value - line), value + 1,
				strlen(value + 1)); /* what is malformed is not passed on */
	}
	if (headers_get(&list, "Host"))
		f.host = headers_get(&list, "Host");
	f.prefix = size & 1 ? "/v1/p/x" : "";
	f.authorization = size & 2;
	f.body = size % 3;
	f.body_len = 5;
	f.upgrade = f.body == FORWARD_NO_BODY && headers_get(&list, "Upgrade");
	if (forward_request(&f, &out, NULL) == 0)
		read_as_one_request(&out);
	if (forward_answer(&f, &list, &back) == 0) {
		for (size_t pos = 0; headers_next(&back, &pos, &h);)
			assert(strcasecmp(h.name, "Content-Length") != 0 &&
				strcasecmp(h.name, "Transfer-Encoding") != 0);
	}
	return 0;
}
