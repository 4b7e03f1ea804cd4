/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a captured machine: `devices`, `delta`, `scratch.ext4`, and perhaps `memory`. */
#pragma once

#include <stdint.h>

#include "base/err.h"

enum { STATE_HASH_SIZE = 65 }; /* hex and its NUL */

/*
 * BLAKE2b of `devices`, of what is not zeros in `scratch.ext4` and `memory`, and of whether there is a delta, which has its
 * own. Files may be sparse in one copy and not in another.
 */
int state_hash(const char *dir, char ret[STATE_HASH_SIZE], struct err *err);

/* The same of one file. */
int state_hash_file(const char *path, char ret[STATE_HASH_SIZE], struct err *err);

/* ERR_SNAPSHOT_DAMAGED where a file, the delta too, is not what it was. *ret_bytes, unless NULL or there is no delta, is how
 * much memory that holds. */
int state_verify(const char *dir, const char *hash, uint64_t *ret_bytes, struct err *err);

/* Puts the hashes of everything into the folder, for a state that has no row to keep one; and verifies it. */
int state_seal(const char *dir, struct err *err);
int state_check(const char *dir, uint64_t *ret_bytes, struct err *err);

/* Makes `memory` (that of the folder, else base_memory, of `bytes`) with the delta in it, in place of the delta: copies of
 * the machine then share its pages. Where that fails the state is as it was. */
int state_flatten(const char *dir, const char *base_memory, uint64_t bytes, struct err *err);

/* Copies a folder's files into another, which exists. */
int state_clone(const char *from, const char *to, struct err *err);
