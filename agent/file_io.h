/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small files: settings, /proc, /sys. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

/*
 * Appends the file's contents to *ret (NUL-terminated), up to its bound. Regular files only (those
 * of /proc and /sys are): -EINVAL for anything else, so that no FIFO can hold up the caller.
 */
int file_read_small(int dir_fd, const char *path, struct buf *ret);

/* The same of an open file, from its beginning. */
int file_read_all(int fd, struct buf *ret);
/* Opens it for reading as text; NULL for anything but a regular file. */
FILE *file_open_text(const char *path);

/* Writes a value into an existing file with one write(2). */
int file_write_small(int dir_fd, const char *path, const char *value);
int file_write_number(int dir_fd, const char *path, unsigned long long value);

/* A row of /proc/meminfo, in bytes; 0 where there is none. */
uint64_t meminfo_bytes(const char *key);

/* Creates or replaces the file's contents. */
int file_put(const char *path, const char *contents, int mode);

/* Puts other contents into an open file. */
int file_replace(int fd, const char *contents);
