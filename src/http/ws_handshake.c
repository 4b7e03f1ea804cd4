/* SPDX-License-Identifier: Apache-2.0 */
/* The opening handshake of a WebSocket, the server's side. */
#include "http/ws_handshake.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/origin.h"
#include "proto/websocket.h"
#include "version.h"

enum {
	KEY_BYTES = 16,
	HEADERS_BYTES_MAX = 1024,
};

static const char subprotocol[] = "pds-pty";
static const char bearer[] = "bearer.";

char *ws_handshake_key(const struct buf *headers)
{
	struct http_header h;

	if (!headers_have(headers, "Upgrade", "websocket"))
		return NULL;
	for (size_t pos = 0; headers_next(headers, &pos, &h);) {
		if (strcasecmp(h.name, "Sec-WebSocket-Protocol") != 0)
			continue;
		for (const char *at = h.value; *at; at += strcspn(at, ", \t")) {
			at += strspn(at, ", \t");
			if (str_starts_with(at, bearer)) {
				at += strlen(bearer);
				return strndup(at, strcspn(at, ", \t"));
			}
		}
	}
	return NULL;
}

static bool is_key(const char *key)
{
	uint8_t bytes[KEY_BYTES];
	size_t len;

	return key && base64_decode(key, strlen(key), bytes, sizeof(bytes), &len) == 0 &&
		len == sizeof(bytes);
}

int ws_handshake_check(const struct http_req *req, struct err *err)
{
	const struct buf *headers = &req->headers;
	const char *version = headers_get(headers, "Sec-WebSocket-Version");

	if (strcmp(req->method, "GET") != 0 || !headers_have(headers, "Upgrade", "websocket") ||
		!headers_have(headers, "Connection", "upgrade"))
		return err_set(err, ERR_INVALID, -EINVAL,
			"this path is a WebSocket: connect to it with ws:// and a client that "
			"speaks it");
	if (!version || strcmp(version, "13") != 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"Sec-WebSocket-Version must be 13 (RFC 6455)");
	if (!is_key(headers_get(headers, "Sec-WebSocket-Key")))
		return err_set(err, ERR_INVALID, -EINVAL,
			"Sec-WebSocket-Key must be 16 bytes in base64");
	if (atomic_load(&req->stats->websockets) >= LIMIT_WEBSOCKETS)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"%d WebSockets are open already; close one of them", LIMIT_WEBSOCKETS);
	return origin_check(req, err);
}

static int add(struct buf *headers, const char *name, const char *value)
{
	return headers_add(headers, name, strlen(name), value, strlen(value));
}

int ws_handshake_answer(const struct http_req *req, struct http_resp *resp,
	const struct http_upgrade *upgrade, void *user)
{
	struct buf headers = buf_init(HEADERS_BYTES_MAX);
	char accept[WEBSOCKET_ACCEPT_SIZE];

	websocket_accept(accept, headers_get(&req->headers, "Sec-WebSocket-Key"));
	if (add(&headers, "Upgrade", "websocket") < 0 ||
		add(&headers, HTTP_VERSION_HEADER, PANDASTACK_VERSION) < 0 ||
		add(&headers, "Sec-WebSocket-Accept", accept) < 0 ||
		(headers_have(&req->headers, "Sec-WebSocket-Protocol", subprotocol) &&
			add(&headers, "Sec-WebSocket-Protocol", subprotocol) < 0))
		abort(); /* out of memory */
	return http_resp_upgrade(resp, &headers, upgrade, user);
}
