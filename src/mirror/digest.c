/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of files, over libsodium, whose calls here never fail. */
#include "mirror/digest.h"

#include <errno.h>
#include <string.h>

int digest_from_hex(const char *hex, struct digest *ret)
{
	struct digest d = {0};

	if (strlen(hex) != 2 * crypto_hash_sha256_BYTES || hex[strspn(hex, "0123456789abcdef")])
		return -EINVAL;
	(void)sodium_hex2bin(d.bytes, sizeof(d.bytes), hex, strlen(hex), NULL, &d.len, NULL);
	*ret = d;
	return 0;
}

int digest_from_integrity(const char *text, struct digest *ret)
{
	static const char prefix[] = "sha512-";
	const char *at = strstr(text, prefix);
	struct digest d = {0};

	if (!at)
		return -EINVAL;
	at += strlen(prefix);
	if (sodium_base642bin(d.bytes, sizeof(d.bytes), at, strcspn(at, " ?"), NULL, &d.len, NULL,
		    sodium_base64_VARIANT_ORIGINAL) < 0 ||
		d.len != crypto_hash_sha512_BYTES)
		return -EINVAL;
	*ret = d;
	return 0;
}

void digest_begin(struct digest_state *s, const struct digest *want)
{
	s->want = *want;
	(void)crypto_hash_sha256_init(&s->sha256);
	(void)crypto_hash_sha512_init(&s->sha512);
}

void digest_update(struct digest_state *s, const void *data, size_t len)
{
	if (s->want.len == crypto_hash_sha256_BYTES)
		(void)crypto_hash_sha256_update(&s->sha256, data, len);
	else if (s->want.len == crypto_hash_sha512_BYTES)
		(void)crypto_hash_sha512_update(&s->sha512, data, len);
}

bool digest_end(struct digest_state *s)
{
	uint8_t own[crypto_hash_sha512_BYTES];

	if (s->want.len == crypto_hash_sha256_BYTES)
		(void)crypto_hash_sha256_final(&s->sha256, own);
	else if (s->want.len == crypto_hash_sha512_BYTES)
		(void)crypto_hash_sha512_final(&s->sha512, own);
	return memcmp(own, s->want.bytes, s->want.len) == 0;
}
