/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of files that were downloaded, each under a key; bounded, the longest unused go first.
 *
 * A file's name is the SHA-256 of its key, so no text from outside becomes a name. It has none (O_TMPFILE) until it is whole and
 * on the disk: who finds it finds all of it, and what a crash interrupts leaves nothing. One that somebody has open (flock(2)) is not
 * removed, for it would go on taking room and not be counted: so the bound holds however slowly a file is read. Its time of modification
 * is that of its last use, or of a document, which gets old, that of its making. What does not look like ours is left alone. A folder may
 * be shared by daemons. For all threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct cache;

int cache_open(const char *dir, uint64_t max_bytes, struct cache **ret, struct err *err);
/* NULL is fine; returns NULL. */
struct cache *cache_close(struct cache *c);

/* A descriptor to read it, while which is open it stays, or -ENOENT; `use`: it was used now. */
int cache_get(struct cache *c, const char *key, bool use, struct stat *ret);

/* A file without a name, to be written and read: its descriptor or a negative errno. */
int cache_new(struct cache *c);
/* It is whole: makes it the key's, too. -EBUSY: an older one is in use; -ENOSPC: so are all others, or it is too large. */
int cache_keep(struct cache *c, int fd, const char *key);
