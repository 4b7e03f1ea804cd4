/* SPDX-License-Identifier: Apache-2.0 */
/* API keys: made, hashed and checked. */
#include "http/auth.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"

enum {
	HASH_BYTES = crypto_generichash_BYTES,
	SECRET_BYTES = 16,
	PREFIX_CHARS = 12, /* "pds_" and 8: names a key without giving it away */
};

struct key {
	struct key *next;
	uint8_t hash[HASH_BYTES];
	char prefix[PREFIX_CHARS + 1];
	char *label; /* owned; NULL for none */
	int64_t created_ms;
};

struct auth {
	struct store *store; /* borrowed */
	pthread_mutex_t lock;
	struct key *keys; /* owned, newest first; under lock */
};

static void hash_key(uint8_t dst[HASH_BYTES], const char *key)
{
	(void)crypto_generichash(dst, HASH_BYTES, (const uint8_t *)key, strlen(key), NULL, 0);
}

static int add_key(const char *prefix, const char *hash_hex, const char *label, int64_t created_ms,
	void *user)
{
	struct auth *auth = user;
	struct key *key = xnew(struct key);
	size_t len;

	if (sodium_hex2bin(key->hash, HASH_BYTES, hash_hex, strlen(hash_hex), NULL, &len, NULL) !=
			0 ||
		len != HASH_BYTES) {
		free(key);
		return -EBADMSG;
	}
	(void)snprintf(key->prefix, sizeof(key->prefix), "%s", prefix);
	key->label = label ? strdup(label) : NULL;
	key->created_ms = created_ms;
	key->next = auth->keys;
	auth->keys = key;
	return 0;
}

int auth_new(struct store *store, struct auth **ret, struct err *err)
{
	struct auth *auth = xnew(struct auth);
	int r;

	auth->store = store;
	(void)pthread_mutex_init(&auth->lock, NULL); /* never fails on Linux */
	r = store_each_key(store, add_key, auth, err);
	if (r < 0) {
		auth_free(auth);
		return r == -EBADMSG ? err_set(err, ERR_INTERNAL, r,
					       "the registry holds an API key's hash that is none")
				     : r;
	}
	*ret = auth;
	return 0;
}

struct auth *auth_free(struct auth *auth)
{
	if (!auth)
		return NULL;
	while (auth->keys) {
		struct key *key = auth->keys;

		auth->keys = key->next;
		free(key->label);
		free(key);
	}
	pthread_mutex_destroy(&auth->lock);
	free(auth);
	return NULL;
}

bool auth_check(struct auth *auth, const char *key)
{
	uint8_t hash[HASH_BYTES];
	int found = 0;

	hash_key(hash, key);
	pthread_mutex_lock(&auth->lock);
	for (const struct key *k = auth->keys; k; k = k->next)
		found |= sodium_memcmp(hash, k->hash, HASH_BYTES) == 0;
	pthread_mutex_unlock(&auth->lock);
	return found != 0;
}

int auth_make_key(struct auth *auth, const char *label, char ret_key[AUTH_KEY_SIZE],
	struct err *err)
{
	uint8_t secret[SECRET_BYTES], hash[HASH_BYTES];
	char key[AUTH_KEY_SIZE] = "pds_", prefix[PREFIX_CHARS + 1], hex[2 * HASH_BYTES + 1];
	int64_t now = clock_real_ms();
	int r;

	randombytes_buf(secret, sizeof(secret));
	str_hex(key + 4, secret, sizeof(secret));
	hash_key(hash, key);
	str_hex(hex, hash, sizeof(hash));
	memcpy(prefix, key, PREFIX_CHARS);
	prefix[PREFIX_CHARS] = '\0';
	r = store_put_key(auth->store, prefix, hex, label, now, err);
	if (r == 0) {
		pthread_mutex_lock(&auth->lock);
		(void)add_key(prefix, hex, label, now, auth); /* the hash is well-formed: ours */
		pthread_mutex_unlock(&auth->lock);
		memcpy(ret_key, key, sizeof(key));
	}
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(key, sizeof(key));
	return r;
}

json_t *auth_list(struct auth *auth)
{
	json_t *list = json_array();
	char created[CLOCK_TEXT_SIZE];

	pthread_mutex_lock(&auth->lock);
	for (const struct key *k = auth->keys; k; k = k->next)
		(void)json_array_append_new(list,
			json_pack("{s:s, s:s*, s:s}", "prefix", k->prefix, "label", k->label,
				"created_at", clock_format_rfc3339(created, k->created_ms)));
	pthread_mutex_unlock(&auth->lock);
	return list;
}
