/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's memory in its process. */
#include "engine/guest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/macros.h"

enum { MAP_ENTRIES = 32 << 10 }; /* of pagemap, read at once: 128 MiB of memory */

/* Documentation/admin-guide/mm/pagemap.rst of the kernel. */
#define PAGEMAP_FILE (1ULL << 61)
#define PAGEMAP_SWAPPED (1ULL << 62)
#define PAGEMAP_PRESENT (1ULL << 63)

void extents_done(struct extents *e)
{
	free(e->all);
}

int guest_memory_find(pid_t pid, uint64_t bytes, struct guest_memory *ret)
{
	char path[48], line[PATH_MAX + 128];
	FILE *maps;
	int r = -ENOENT;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), maps)) {
		unsigned long long from, to, offset, inode;
		char mode[5];

		/* NOLINTNEXTLINE(cert-err34-c): the kernel writes it */
		if (sscanf(line, "%llx-%llx %4s %llx %*s %llu", &from, &to, mode, &offset,
			    &inode) != 5)
			continue;
		if (strcmp(mode, "rw-p") == 0 && offset == 0 && inode != 0 && to - from == bytes) {
			*ret = (struct guest_memory){.pid = pid, .start = from, .bytes = bytes};
			r = 0;
		}
	}
	(void)fclose(maps);
	return r;
}

static bool is_written(uint64_t entry)
{
	return (entry & PAGEMAP_SWAPPED) || ((entry & PAGEMAP_PRESENT) && !(entry & PAGEMAP_FILE));
}

static void add_page(struct extents *e, uint64_t page)
{
	struct extent *last = e->n ? &e->all[e->n - 1] : NULL;

	e->n_pages++;
	if (last && last->first + last->n == page) {
		last->n++;
		return;
	}
	if (e->n == e->cap) {
		e->cap = e->cap ? 2 * e->cap : 1024;
		e->all = realloc(e->all, e->cap * sizeof(struct extent));
		if (!e->all)
			abort();
	}
	e->all[e->n++] = (struct extent){.first = page, .n = 1};
}

int guest_memory_written(const struct guest_memory *memory, struct extents *ret)
{
	_cleanup_free_ uint64_t *entries = xcalloc(MAP_ENTRIES, sizeof(uint64_t));
	_cleanup_close_ int fd = -1;
	uint64_t pages = memory->bytes / GUEST_PAGE_BYTES, first = memory->start / GUEST_PAGE_BYTES;
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)memory->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (uint64_t at = 0; at < pages;) {
		size_t want = (size_t)MIN(pages - at, (uint64_t)MAP_ENTRIES) * sizeof(uint64_t);
		ssize_t n = pread(fd, entries, want, (off_t)((first + at) * sizeof(uint64_t)));

		if (n <= 0)
			return n < 0 ? -errno : -ESRCH; /* the process has ended */
		for (size_t i = 0; i < (size_t)n / sizeof(uint64_t); i++) {
			if (is_written(entries[i]))
				add_page(ret, at + i);
		}
		at += (uint64_t)n / sizeof(uint64_t);
	}
	return ret->n > EXTENTS_MAX ? -EFBIG : 0;
}

bool runs_next(struct runs *r, const struct extents *e)
{
	uint64_t room = RUNS_PAGES_MAX;

	r->n = 0;
	while (room > 0 && r->extent < e->n) {
		const struct extent *x = &e->all[r->extent];
		uint64_t n = MIN(x->n - r->page, room);

		r->at[r->n++] = (struct iovec){
			.iov_base = (void *)(uintptr_t)((x->first + r->page) * GUEST_PAGE_BYTES),
			.iov_len = (size_t)n * GUEST_PAGE_BYTES,
		};
		r->page += n;
		room -= n;
		if (r->page == x->n) {
			r->extent++;
			r->page = 0;
		}
	}
	r->bytes = (size_t)(RUNS_PAGES_MAX - room) * GUEST_PAGE_BYTES;
	return r->n > 0;
}

typedef ssize_t copy_fn(pid_t pid, const struct iovec *local, unsigned long n_local,
	const struct iovec *remote, unsigned long n_remote, unsigned long flags);

/* Copies a chunk, either way. */
static int copy_process(copy_fn *copy, const struct guest_memory *memory, const struct runs *runs,
	void *data)
{
	struct iovec local = {.iov_base = data, .iov_len = runs->bytes};
	struct iovec remote[RUNS_PAGES_MAX];
	ssize_t n;

	for (size_t i = 0; i < runs->n; i++) {
		remote[i] = runs->at[i];
		remote[i].iov_base = (char *)remote[i].iov_base + memory->start;
	}
	n = copy(memory->pid, &local, 1, remote, runs->n, 0);
	if (n < 0)
		return -errno;
	return (size_t)n == runs->bytes ? 0 : -EFAULT; /* all of it is mapped and may be written */
}

int guest_memory_read(const struct guest_memory *memory, const struct runs *runs, void *data)
{
	return copy_process(process_vm_readv, memory, runs, data);
}

int guest_memory_write(const struct guest_memory *memory, const struct runs *runs, void *data)
{
	return copy_process(process_vm_writev, memory, runs, data);
}

/* ---- another memory ---- */

/* Adds the pages of these runs that differ from those in the file. */
static int add_different(struct extents *e, const struct runs *runs, const char *data, int base_fd,
	char *base)
{
	for (size_t i = 0; i < runs->n; i++) {
		size_t at = (size_t)(uintptr_t)runs->at[i].iov_base, len = runs->at[i].iov_len;
		int r = fs_pread_all(base_fd, base, len, (off_t)at);

		if (r < 0)
			return r;
		for (size_t k = 0; k < len; k += GUEST_PAGE_BYTES, data += GUEST_PAGE_BYTES) {
			if (memcmp(data, base + k, GUEST_PAGE_BYTES) != 0)
				add_page(e, (at + k) / GUEST_PAGE_BYTES);
		}
	}
	return 0;
}

int guest_memory_drop_same(const struct guest_memory *memory, const char *base_path,
	struct extents *e)
{
	_cleanup_free_ char *data = xcalloc(1, RUNS_BYTES_MAX), *base = xcalloc(1, RUNS_BYTES_MAX);
	_cleanup_close_ int fd = open(base_path, O_RDONLY | O_CLOEXEC);
	struct extents different = {0};
	struct runs runs = {0};
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != memory->bytes)
		return -EINVAL;
	while (r == 0 && runs_next(&runs, e)) {
		r = guest_memory_read(memory, &runs, data);
		if (r == 0)
			r = add_different(&different, &runs, data, fd, base);
	}
	extents_done(e);
	*e = different;
	return r == 0 && e->n > EXTENTS_MAX ? -EFBIG : r;
}
