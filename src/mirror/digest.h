/* SPDX-License-Identifier: Apache-2.0 */
/* What a file must hash to: SHA-256 in hex, as Python's indexes and apt have it, or SHA-512 in base64, as npm's has. Pure. */
#pragma once

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest {
	size_t len; /* in bytes, which tells the two apart; 0: none is known */
	uint8_t bytes[crypto_hash_sha512_BYTES];
};

/* Lower-case hex. -EINVAL. */
int digest_from_hex(const char *hex, struct digest *ret);
/* "sha512-BASE64" among others perhaps (Subresource Integrity). -EINVAL. */
int digest_from_integrity(const char *text, struct digest *ret);

struct digest_state {
	struct digest want;
	crypto_hash_sha256_state sha256;
	crypto_hash_sha512_state sha512;
};
void digest_begin(struct digest_state *s, const struct digest *want);
void digest_update(struct digest_state *s, const void *data, size_t len);
/* Whether it is right; where none was wanted, it is. */
bool digest_end(struct digest_state *s);
