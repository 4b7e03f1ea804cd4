/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys: "pds_" and 32 hex digits, which are 128 random bits.
 *
 * Only a BLAKE2b hash of a key is kept, in the store and here. A slow password hash would add
 * nothing: nobody can guess 128 random bits. Hashes are compared in constant time, with every key
 * there is. For any thread; a key is written by auth_make_key() alone, before the server starts.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "store/store.h"

enum { AUTH_KEY_SIZE = 4 + 32 + 1 };

struct auth;

/* Reads the keys' hashes. The store is borrowed. */
int auth_new(struct store *store, struct auth **ret, struct err *err);
struct auth *auth_free(struct auth *auth);

bool auth_check(struct auth *auth, const char *key);

/* Makes a key, stores its hash and hands the key out: this is the only time that it is seen. */
int auth_make_key(struct auth *auth, const char *label, char ret_key[AUTH_KEY_SIZE],
	struct err *err);

/* An array of {prefix, label, created_at}. */
json_t *auth_list(struct auth *auth);
