/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that send requests: client.c one at a time, cmd_mcp.c many at once. */
#pragma once

#include <curl/curl.h>

#include "base/buf.h"
#include "cli/client.h"

/* The options and headers that every request has. `headers` is the caller's, for CURLOPT_HTTPHEADER. */
void client_prepare(const struct client *client, const char *path, CURL *easy,
	struct curl_slist **headers);
void client_add_header(struct curl_slist **headers, const char *name, const char *value);

/* Readable when a signal of client_catch_signals() came; -1 before that call. */
int client_signal_fd(const struct client *client);

/* Why there is no answer; `why` is libcurl's text, or "". */
int client_transport_error(const struct client *client, CURLcode code, const char *why,
	struct err *err);
/* What an answer says that is no success. */
int client_http_error(const struct client *client, long status, const struct buf *answer,
	struct err *err);
