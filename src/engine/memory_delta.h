/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages that a machine has written since it was started: taken out of its process into a file, and put
 * from there into the process of another machine with the same memory file.
 *
 * The file: struct delta_header, the extents, padding to a page, the pages: as they are, or as one zstd frame that goes
 * to the end. Written by us, but read again after months on a disk: everything in it is checked, its contents against a
 * BLAKE2b hash once it is sealed. A reader holds the extents and 2 MiB, and writes nowhere but where they say.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/guest_memory.h"

/*
 * Writes a new file of the pages that the process has written; *ret_bytes is how much they are. `base`, or NULL, is another
 * memory file of that length, made of the same process at an earlier time (delta_apply()): only what differs from that is
 * written, and it goes with that. -EPERM (ERR_ENGINE) where the system does not let us look into that process.
 */
int delta_save(const struct guest_memory *memory, const char *base, const char *path,
	uint64_t *ret_bytes, struct err *err);

/*
 * Puts the hash into a file; one that has it already is checked against it (ERR_SNAPSHOT_DAMAGED). `compress`: replaces
 * it by one with compressed pages, unless they are that; until then both take room. Both kinds are read alike.
 */
int delta_seal(const char *path, bool compress, struct err *err);

/* ERR_SNAPSHOT_DAMAGED for a file that is not what was sealed, or never was; *ret_bytes, unless NULL, is as of delta_save(). */
int delta_check(const char *path, uint64_t *ret_bytes, struct err *err);

/* Writes the pages into the process. What has been on a disk is the caller's to check first; here a file is only refused
 * (ERR_SNAPSHOT_DAMAGED) where it makes no sense. */
int delta_load(const char *path, const struct guest_memory *memory, struct err *err);

/* Writes the pages into a memory file, a copy of the one that they differ from. The same failures. */
int delta_apply(const char *path, const char *memory_path, uint64_t bytes, struct err *err);
