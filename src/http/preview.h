/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links to a port of a sandbox that work without an API key, for a time: signed tokens.
 *
 * A token is "<payload>.<mac>", both base64url without padding: a JSON object, and HMAC-SHA-256 of the payload's
 * characters under a key that lies in the data folder. Nothing of it is kept: it ends by its time, or with its sandbox,
 * whose id is never used again; all of them end when the key's file is removed and the daemon started anew.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/core.h"

enum {
	PREVIEW_KEY_BYTES = 32,
	PREVIEW_TTL_SECONDS = 3600,
	PREVIEW_TTL_SECONDS_MAX = 7 * 24 * 3600,
	PREVIEW_PATHS_MAX = 16,
	PREVIEW_PATH_BYTES_MAX = 256,
};

struct preview_key {
	uint8_t bytes[PREVIEW_KEY_BYTES];
};

/* What a token gives access to. */
struct preview {
	char id[SANDBOX_ID_SIZE];
	uint16_t port;
	int64_t expires_s; /* wall clock */
	json_t *paths;     /* owned; an array of absolute paths; empty: all */
};

/* Reads the key's file, or makes it. */
int preview_key_load(const char *path, struct preview_key *ret, struct err *err);

/* To be freed; NULL without memory. */
char *preview_sign(const struct preview_key *key, const struct preview *p);

/* -EACCES (ERR_UNAUTHORIZED) for a token that is not of this key, or over. */
int preview_verify(const struct preview_key *key, const char *token, int64_t now_s,
	struct preview *ret, struct err *err);

void preview_done(struct preview *p);
#define _cleanup_preview_ CLEANUP(preview_done)

/*
 * Whether that target ("/a/b?c=d", as it came; "" is "/") is below one of the paths. Where it is not clear how a server would read
 * it ("..", "//", "%2F", a backslash, what is no UTF-8), it is not.
 */
bool preview_allows(const struct preview *p, const char *target);
