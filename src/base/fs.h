/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders of our own: made, written so that a crash leaves the old or the new, copied
 * sparsely, removed whole. No path here comes from a guest or a client.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* "<dir>/<name>", to be freed; never NULL. */
char *fs_join(const char *dir, const char *name);

/* The folder that this program lies in, or lay in, to be freed; NULL where it is not known. */
char *fs_program_dir(void);

/* A file of this program's: `beside` its own folder, as in the build's tree, or else `installed`. To be freed; never NULL. */
char *fs_find_own(const char *beside, const char *installed);

/* Makes the folder and its parents; 0 when it is there already. */
int fs_mkdirs(const char *path, mode_t mode, struct err *err);

/* Reads a whole file of at most `max` bytes: *ret is NUL-terminated and to be freed. -EFBIG. */
int fs_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *err);

/* All of it, at the descriptor's place or at an offset: 0 or a negative errno; -ENODATA where the file ends before. */
int fs_write_all(int fd, const void *data, size_t len);
int fs_pwrite_all(int fd, const void *data, size_t len, off_t offset);
int fs_pread_all(int fd, void *data, size_t len, off_t offset);

/* Writes a temporary file, syncs it and renames it to `path`. */
int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err);

/* Makes `to` the same as `from`: a clone where the file system can, else a copy of what is data. */
int fs_clone(const char *from, const char *to, mode_t mode, struct err *err);
/* The same for a file that is there already and may be open elsewhere: it stays that file. */
int fs_clone_into(const char *from, const char *to, struct err *err);

/* Brings the names in a folder to the disk, not what they stand for. */
int fs_sync_dir(const char *path, struct err *err);

/* Brings the files of a folder, and the folder itself, to the disk. */
int fs_sync_tree(const char *path, struct err *err);

/* Removes a file or a folder with all in it, however deep; follows no links; 0 when it is not there. */
int fs_remove_tree(const char *path, struct err *err);

/* Bytes that a file or a folder takes on the disk; 32 levels of it are counted. */
uint64_t fs_disk_usage(const char *path);
/* The same, less files that have another name, too: what its removal gives back. */
uint64_t fs_own_usage(const char *path);
