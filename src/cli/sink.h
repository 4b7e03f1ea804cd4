/* SPDX-License-Identifier: Apache-2.0 */
/* The local ends of a download and an upload: a file, or "-" for stdout and stdin. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A download's end; the file is made when the first byte, or the end, is there. */
struct sink {
	const char *path; /* "-": stdout */
	int fd;           /* -1 at first; owned unless it is stdout */
	uint64_t bytes;
};

/* Unless it is open already. */
int sink_open(struct sink *sink, struct err *err);
/* A client_data_fn; `user` is the struct sink. */
int sink_write(const char *data, size_t len, void *user, struct err *err);
void sink_done(struct sink *sink);
#define _cleanup_sink_ CLEANUP(sink_done)

/* An upload's beginning: *ret_bytes is -1 where the length is not known. */
int source_open(const char *path, int *ret, int64_t *ret_bytes, struct err *err);
