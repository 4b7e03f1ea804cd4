/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A captured machine as one stream of bytes: what `pandastack snapshot export` writes.
 *
 * Theory of operation
 * -------------------
 * One zstd frame, with a window of at most 8 MiB. In it, numbers little-endian:
 *
 *	magic "PSSNAP01", u32 length of the manifest, the manifest (a JSON object)
 *	records: u8 kind, 3 zeros, u32 length, u64 offset, then `length` bytes
 *		kind 0, 1, 2   bytes of devices, scratch.ext4, memory, in that order and with ascending offsets; what no
 *			       record holds is zeros
 *		kind 255       the end: BLAKE2b-256 of all before this record
 *
 * Member `files` of the manifest has the length of each. There are no names, paths or modes to be wrong about, no
 * entry can come twice, and a file is written once from front to back; so the reader needs no memory but its buffers. (A tar file
 * would: sparse files have five dialects there, and libarchive pulls, whereas an upload pushes.)
 *
 * The reader trusts nothing: it stops at the first byte that does not belong where it is, and says that all went
 * well only after the end's hash, at the end of the frame, with nothing behind it. What the manifest's members mean
 * is its caller's to check.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum state_member {
	STATE_DEVICES,
	STATE_DISK,
	STATE_MEMORY,
	_STATE_MEMBER_MAX,
};

/* The name of its file in a state folder. */
const char *state_member_name(enum state_member m);

/* ---- writing ---- */

struct state_writer;

/* Takes the descriptors of the files, also on failure; the manifest is borrowed for the call and gets its `files`. */
int state_writer_new(json_t *manifest, int fds[_STATE_MEMBER_MAX], struct state_writer **ret,
	struct err *err);
/* The next bytes: how many, 0 at the end, or a negative errno. */
ssize_t state_writer_read(struct state_writer *w, void *dst, size_t max);
struct state_writer *state_writer_free(struct state_writer *w);
DEFINE_CLEANUP(struct state_writer *, state_writer_free)
#define _cleanup_state_writer_ CLEANUP(state_writer_freep)

/* ---- reading ---- */

struct state_reader_ops {
	/* Once, first: may refuse it. `sizes` is what it claims for the files: to be bounded here. */
	int (*manifest)(const json_t *manifest, const uint64_t sizes[_STATE_MEMBER_MAX], void *user,
		struct err *err);
	/* Bytes of a file, in order, within its size. */
	int (*data)(enum state_member m, uint64_t offset, const void *data, size_t len, void *user,
		struct err *err);
};

struct state_reader;

struct state_reader *state_reader_new(const struct state_reader_ops *ops, void *user);
struct state_reader *state_reader_free(struct state_reader *r);
DEFINE_CLEANUP(struct state_reader *, state_reader_free)
#define _cleanup_state_reader_ CLEANUP(state_reader_freep)

/* The next bytes. 0, what a callback returned, or -EBADMSG (ERR_INVALID); after a failure only state_reader_free(). */
int state_reader_feed(struct state_reader *r, const void *data, size_t len, struct err *err);
/* No more come: 0 when it was all there. */
int state_reader_end(struct state_reader *r, struct err *err);
