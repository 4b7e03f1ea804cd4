/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's memory in its process: where it is, which of its pages were written, and copies of these out and in.
 *
 * A process maps its memory file privately. What it wrote is anonymous memory, which /proc/PID/pagemap tells
 * apart from pages of the file. The machine must be stopped meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
	GUEST_PAGE_BYTES = 4096,
	EXTENTS_MAX = 1 << 22, /* 32 GiB of memory with every second page written */
	RUNS_PAGES_MAX = 256,  /* no more than IOV_MAX runs */
	RUNS_BYTES_MAX = RUNS_PAGES_MAX * GUEST_PAGE_BYTES,
};

/* Where a process has a machine's memory. */
struct guest_memory {
	pid_t pid;
	uint64_t start; /* address */
	uint64_t bytes;
};

/* Finds the one private, writable mapping of a file with that length. -ENOENT while there is none. */
int guest_memory_find(pid_t pid, uint64_t bytes, struct guest_memory *ret);

struct extent {
	uint64_t first; /* pages */
	uint64_t n;
};

struct extents {
	struct extent *all; /* owned */
	size_t n, cap;
	uint64_t n_pages;
};
void extents_done(struct extents *e);

/* Adds the pages that the process has written. -EFBIG for more than EXTENTS_MAX; -ESRCH when it has ended. */
int guest_memory_written(const struct guest_memory *memory, struct extents *ret);

/* What of the extents is copied at once: runs of pages (iov_base is an offset), and the place behind them. */
struct runs {
	size_t extent;
	uint64_t page; /* of the extent */
	struct iovec at[RUNS_PAGES_MAX];
	size_t n;
	size_t bytes;
};

/* Steps on; false at the end. Begins with zeros. */
bool runs_next(struct runs *r, const struct extents *e);

/* Copies the pages of these runs. */
int guest_memory_read(const struct guest_memory *memory, const struct runs *runs, void *data);
int guest_memory_write(const struct guest_memory *memory, const struct runs *runs, void *data);

/* Takes out of the extents the pages that are the same in a memory file of that length (else -EINVAL). */
int guest_memory_drop_same(const struct guest_memory *memory, const char *base_path,
	struct extents *e);
