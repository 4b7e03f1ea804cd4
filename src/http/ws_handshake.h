/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opening handshake of a WebSocket, the server's side (RFC 6455, section 4.2):
 *
 *	ws_handshake_check()     first: what is wrong with the request, before it costs anything
 *	ws_handshake_answer()    the 101, when all else that may fail has not
 */
#pragma once

#include "http/http.h"

/* A browser can't set headers: the KEY of the subprotocol "bearer.KEY", which is never answered; to be freed. NULL: none. */
char *ws_handshake_key(const struct buf *headers);

/*
 * ERR_INVALID where it is no request for a WebSocket; ERR_FORBIDDEN for a page of another origin; ERR_TOO_MANY over
 * LIMIT_WEBSOCKETS.
 */
int ws_handshake_check(const struct http_req *req, struct err *err);

/* The subprotocol "pds-pty" is agreed to where it is offered. */
int ws_handshake_answer(const struct http_req *req, struct http_resp *resp,
	const struct http_upgrade *upgrade, void *user);
