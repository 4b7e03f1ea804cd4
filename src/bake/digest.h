/* SPDX-License-Identifier: Apache-2.0 */
/* A digest over texts, numbers and files (BLAKE2b, by libsodium): the version of what is built from them. */
#pragma once

#include <sodium.h>
#include <stdint.h>

#include "base/err.h"

enum {
	DIGEST_BYTES = 16,
	DIGEST_TEXT_SIZE = 2 * DIGEST_BYTES + 1,
};

struct digest {
	crypto_generichash_state state;
};

void digest_init(struct digest *d);
/* Each item is framed by its length: two texts never digest as one. */
void digest_text(struct digest *d, const char *text);
void digest_number(struct digest *d, uint64_t n);
/* A file, or a folder with all in it (names, contents, whether executable), in the order of names. Python's
 * compiled files and tests' caches are left out. */
int digest_tree(struct digest *d, const char *path, struct err *err);
/* Lower-case hex. */
void digest_final(struct digest *d, char ret[DIGEST_TEXT_SIZE]);
