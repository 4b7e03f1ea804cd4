/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: libmicrohttpd with a thread per connection, behind the table of routes.
 *
 * Bodies are JSON of at most LIMIT_JSON_BODY_BYTES, or streamed; answers are buffered or streamed.
 * The stop ends every connection: streams break off, commands that ran for a client are cancelled.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "core/core.h"
#include "http/auth.h"

struct http_server;

enum { HTTP_ADDRESS_SIZE = 64 };

struct http_limits;
struct preview_key;

/* Listens on "HOST:PORT" or "[IPV6]:PORT"; port 0 lets the system choose. What is not returned is borrowed. */
int http_server_start(const char *listen, struct core *core, struct auth *auth,
	const struct preview_key *preview_key, const struct http_limits *limits,
	struct http_server **ret, struct err *err);

/* Where it listens: "127.0.0.1:8080". */
const char *http_server_address(const struct http_server *server);

/* Ends all connections and waits for their handlers. Returns NULL. */
struct http_server *http_server_stop(struct http_server *server);
