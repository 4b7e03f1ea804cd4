/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that a machine has written since it was started, as a file. */
#include "engine/memory_delta.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/macros.h"

enum {
	PAGE = 4096,
	MAP_ENTRIES = 32 << 10, /* of pagemap, read at once: 128 MiB of memory */
	CHUNK_PAGES = 256,      /* copied at once; no more than IOV_MAX runs */
	CHUNK_BYTES = CHUNK_PAGES * PAGE,
	HASH_BYTES = 32,
	EXTENTS_MAX = 1 << 22, /* 16 GiB of memory with every second page written */
};

/* Documentation/admin-guide/mm/pagemap.rst of the kernel. */
#define PAGEMAP_FILE (1ULL << 61)
#define PAGEMAP_SWAPPED (1ULL << 62)
#define PAGEMAP_PRESENT (1ULL << 63)

struct extent {
	uint64_t first; /* pages */
	uint64_t n;
};

static const char magic[8] = "PSDELTA1";

struct delta_header {
	char magic[8];
	uint64_t memory_bytes;
	uint64_t n_extents;
	uint64_t n_pages;
	uint8_t hash[HASH_BYTES]; /* of all else, with zeros here; zeros: not sealed */
};

struct extents {
	struct extent *all; /* owned */
	size_t n, cap;
	uint64_t n_pages;
};

static void extents_done(struct extents *e)
{
	free(e->all);
}

/* Where the pages begin in the file. */
static off_t data_offset(uint64_t n_extents)
{
	size_t bytes = sizeof(struct delta_header) + (size_t)n_extents * sizeof(struct extent);

	return (off_t)((bytes + PAGE - 1) / PAGE * PAGE);
}

/* ---- the process ---- */

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

static int find_written(const struct guest_memory *memory, struct extents *e)
{
	_cleanup_free_ uint64_t *entries = xcalloc(MAP_ENTRIES, sizeof(uint64_t));
	_cleanup_close_ int fd = -1;
	uint64_t pages = memory->bytes / PAGE, first = memory->start / PAGE;
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
				add_page(e, at + i);
		}
		at += (uint64_t)n / sizeof(uint64_t);
	}
	return e->n > EXTENTS_MAX ? -EFBIG : 0;
}

/* What of the extents goes into one chunk: runs of pages (iov_base is an offset), and the place behind them. */
struct runs {
	size_t extent;
	uint64_t page; /* of the extent */
	struct iovec at[CHUNK_PAGES];
	size_t n;
	size_t bytes;
};

/* Steps on by a chunk; false at the end. */
static bool next_runs(struct runs *r, const struct extents *e)
{
	uint64_t room = CHUNK_PAGES;

	r->n = 0;
	while (room > 0 && r->extent < e->n) {
		const struct extent *x = &e->all[r->extent];
		uint64_t n = MIN(x->n - r->page, room);

		r->at[r->n++] = (struct iovec){
			.iov_base = (void *)(uintptr_t)((x->first + r->page) * PAGE),
			.iov_len = (size_t)n * PAGE,
		};
		r->page += n;
		room -= n;
		if (r->page == x->n) {
			r->extent++;
			r->page = 0;
		}
	}
	r->bytes = (size_t)(CHUNK_PAGES - room) * PAGE;
	return r->n > 0;
}

typedef ssize_t copy_fn(pid_t pid, const struct iovec *local, unsigned long n_local,
	const struct iovec *remote, unsigned long n_remote, unsigned long flags);

/* Copies a chunk, either way. */
static int copy_process(copy_fn *copy, const struct guest_memory *memory, const struct runs *runs,
	void *data)
{
	struct iovec local = {.iov_base = data, .iov_len = runs->bytes};
	struct iovec remote[CHUNK_PAGES];
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

/* ---- files ---- */

static int write_all(int fd, const void *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
	return 0;
}

static int pread_all(int fd, void *data, size_t len, off_t offset)
{
	while (len > 0) {
		ssize_t n = pread(fd, data, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		data = (char *)data + n;
		offset += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_pages(int fd, const struct guest_memory *memory, const struct extents *e)
{
	_cleanup_free_ char *chunk = xcalloc(1, CHUNK_BYTES);
	struct runs runs = {0};
	int r = 0;

	while (r == 0 && next_runs(&runs, e)) {
		r = copy_process(process_vm_readv, memory, &runs, chunk);
		if (r == 0)
			r = write_all(fd, chunk, runs.bytes);
	}
	return r;
}

/* A memory file to compare with. */
struct base_file {
	const char *data; /* MAP_FAILED: none */
	size_t len;
};

static void base_close(struct base_file *base)
{
	if (base->data != MAP_FAILED)
		(void)munmap((void *)(uintptr_t)base->data, base->len);
}

static int base_open(struct base_file *base, const char *path, uint64_t bytes)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != bytes)
		return -EINVAL;
	base->len = (size_t)bytes;
	base->data = mmap(NULL, base->len, PROT_READ, MAP_SHARED, fd, 0);
	return base->data == MAP_FAILED ? -errno : 0;
}

static void add_different(struct extents *e, const struct runs *runs, const char *chunk,
	const char *base)
{
	for (size_t i = 0; i < runs->n; i++) {
		size_t at = (size_t)(uintptr_t)runs->at[i].iov_base;

		for (size_t k = 0; k < runs->at[i].iov_len; k += PAGE, chunk += PAGE) {
			if (memcmp(chunk, base + at + k, PAGE) != 0)
				add_page(e, (at + k) / PAGE);
		}
	}
}

/* Takes out the pages that are the same in the other file. */
static int drop_same(const struct guest_memory *memory, const char *base_path, struct extents *e)
{
	_cleanup_free_ char *chunk = xcalloc(1, CHUNK_BYTES);
	CLEANUP(base_close) struct base_file base = {.data = MAP_FAILED};
	struct extents different = {0};
	struct runs runs = {0};
	int r = base_open(&base, base_path, memory->bytes);

	while (r == 0 && next_runs(&runs, e)) {
		r = copy_process(process_vm_readv, memory, &runs, chunk);
		if (r == 0)
			add_different(&different, &runs, chunk, base.data);
	}
	extents_done(e);
	*e = different;
	return r;
}

static int explain(int r, const char *path, struct err *err)
{
	if (r == -EPERM || r == -EACCES)
		return err_set(err, ERR_ENGINE, r,
			"this system does not let the daemon read the machine's memory: it was started "
			"by an earlier daemon, and kernel.yama.ptrace_scope is not 0");
	if (r == -ESRCH)
		return err_set(err, ERR_ENGINE, r, "the machine ended meanwhile");
	return err_set_errno(err, r, "can't write %s", path);
}

int delta_save(const struct guest_memory *memory, const char *base, const char *path,
	uint64_t *ret_bytes, struct err *err)
{
	CLEANUP(extents_done) struct extents e = {0};
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct delta_header header = {.memory_bytes = memory->bytes};
	int r;

	if (fd < 0)
		return err_set_errno(err, -errno, "can't make %s", path);
	r = find_written(memory, &e);
	if (r == 0 && base)
		r = drop_same(memory, base, &e);
	memcpy(header.magic, magic, sizeof(magic));
	header.n_extents = e.n;
	header.n_pages = e.n_pages;
	if (r == 0)
		r = write_all(fd, &header, sizeof(header));
	if (r == 0)
		r = write_all(fd, e.all, e.n * sizeof(struct extent));
	if (r == 0 && lseek(fd, data_offset(e.n), SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		r = write_pages(fd, memory, &e);
	if (r == 0 && ftruncate(fd, data_offset(e.n) + (off_t)(e.n_pages * PAGE)) < 0)
		r = -errno; /* it has that length already, unless there are no pages */
	if (r < 0)
		return explain(r, path, err);
	*ret_bytes = e.n_pages * PAGE;
	return 0;
}

/* ---- reading it again ---- */

/* An open file whose header and extents fit each other. */
struct delta {
	int fd;
	struct delta_header header;
	struct extents extents;
	bool sealed;
	crypto_generichash_state hash; /* of what was read so far */
};

static void delta_close(struct delta *d)
{
	cleanup_close(&d->fd);
	extents_done(&d->extents);
}

static int err_damaged(const char *path, struct err *err)
{
	return err_set(err, ERR_SNAPSHOT_DAMAGED, -EBADMSG,
		"%s is damaged: it is not what was written", path);
}

static bool extents_fit(const struct delta *d)
{
	uint64_t next = 0, pages = 0, all = d->header.memory_bytes / PAGE;

	for (size_t i = 0; i < d->extents.n; i++) {
		const struct extent *e = &d->extents.all[i];

		if (e->n == 0 || e->first < next || e->first >= all || e->n > all - e->first)
			return false;
		next = e->first + e->n;
		pages += e->n;
	}
	return pages == d->header.n_pages;
}

static int delta_open(struct delta *d, const char *path, bool sealed, uint64_t memory_bytes,
	struct err *err)
{
	static const uint8_t zeros[HASH_BYTES];
	struct delta_header *h = &d->header, blank;
	struct stat st;

	d->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st) < 0)
		return err_set_errno(err, -errno, "can't open %s", path);
	if (pread_all(d->fd, h, sizeof(*h), 0) < 0 || memcmp(h->magic, magic, sizeof(magic)) != 0 ||
		h->memory_bytes != memory_bytes || h->n_extents > EXTENTS_MAX ||
		h->n_pages > memory_bytes / PAGE ||
		st.st_size != data_offset(h->n_extents) + (off_t)(h->n_pages * PAGE))
		return err_damaged(path, err);
	d->extents.all = xcalloc((size_t)h->n_extents + 1, sizeof(struct extent));
	d->extents.n = (size_t)h->n_extents;
	d->extents.n_pages = h->n_pages;
	if (pread_all(d->fd, d->extents.all, d->extents.n * sizeof(struct extent), sizeof(*h)) <
			0 ||
		!extents_fit(d))
		return err_damaged(path, err);
	d->sealed = memcmp(h->hash, zeros, HASH_BYTES) != 0;
	if (sealed && !d->sealed)
		return err_damaged(path, err);
	blank = *h;
	memset(blank.hash, 0, HASH_BYTES);
	(void)crypto_generichash_init(&d->hash, NULL, 0,
		HASH_BYTES); /* never fails with these sizes */
	(void)crypto_generichash_update(&d->hash, (const uint8_t *)&blank, sizeof(blank));
	(void)crypto_generichash_update(&d->hash, (const uint8_t *)d->extents.all,
		d->extents.n * sizeof(struct extent));
	return 0;
}

/* Takes a chunk. */
typedef int sink_fn(void *user, const struct runs *runs, void *data);

/* Gives all pages to the sink (NULL: nobody), and checks or makes the hash. */
static int read_pages(struct delta *d, sink_fn *sink, void *user, uint8_t ret_hash[HASH_BYTES])
{
	_cleanup_free_ char *chunk = xcalloc(1, CHUNK_BYTES);
	off_t from = data_offset(d->extents.n);
	bool hashing = d->sealed || ret_hash;
	uint8_t hash[HASH_BYTES];
	struct runs runs = {0};
	int r = 0;

	while (r == 0 && next_runs(&runs, &d->extents)) {
		r = pread_all(d->fd, chunk, runs.bytes, from);
		if (r == 0 && hashing)
			(void)crypto_generichash_update(&d->hash, (const uint8_t *)chunk,
				runs.bytes);
		if (r == 0 && sink)
			r = sink(user, &runs, chunk);
		from += (off_t)runs.bytes;
	}
	if (r < 0 || !hashing)
		return r;
	(void)crypto_generichash_final(&d->hash, hash, HASH_BYTES);
	if (ret_hash)
		memcpy(ret_hash, hash, HASH_BYTES);
	else if (sodium_memcmp(hash, d->header.hash, HASH_BYTES) != 0)
		return -EBADMSG;
	return 0;
}

int delta_seal(const char *path, struct err *err)
{
	CLEANUP(delta_close) struct delta d = {.fd = -1};
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t hash[HASH_BYTES];
	struct delta_header header;
	int r;

	if (fd < 0)
		return err_set_errno(err, -errno, "can't open %s", path);
	if (pread_all(fd, &header, sizeof(header), 0) < 0)
		return err_damaged(path, err);
	r = delta_open(&d, path, false, header.memory_bytes, err);
	if (r < 0)
		return r;
	if (d.sealed) { /* before it was copied: that it is whole still is all there is to do */
		r = read_pages(&d, NULL, NULL, NULL);
		return r < 0 ? err_damaged(path, err) : 0;
	}
	r = read_pages(&d, NULL, NULL, hash);
	if (r == 0 &&
		pwrite(fd, hash, HASH_BYTES, offsetof(struct delta_header, hash)) != HASH_BYTES)
		r = errno ? -errno : -EIO;
	return r < 0 ? err_set_errno(err, r, "can't write %s", path) : 0;
}

static int to_process(void *user, const struct runs *runs, void *data)
{
	return copy_process(process_vm_writev, user, runs, data);
}

static int pwrite_all(int fd, const char *data, size_t len, off_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		offset += n;
		len -= (size_t)n;
	}
	return 0;
}

static int to_file(void *user, const struct runs *runs, void *data)
{
	const int *fd = user;
	const char *from = data;
	int r = 0;

	for (size_t i = 0; r == 0 && i < runs->n; i++) {
		r = pwrite_all(*fd, from, runs->at[i].iov_len,
			(off_t)(uintptr_t)runs->at[i].iov_base);
		from += runs->at[i].iov_len;
	}
	return r;
}

static int unload(const char *path, bool sealed, uint64_t bytes, sink_fn *sink, void *user,
	const char *what, struct err *err)
{
	CLEANUP(delta_close) struct delta d = {.fd = -1};
	int r = delta_open(&d, path, sealed, bytes, err);

	if (r < 0)
		return r;
	r = read_pages(&d, sink, user, NULL);
	if (r == -EBADMSG || r == -ENODATA)
		return err_damaged(path, err);
	return r < 0 ? err_set_errno(err, r, "can't write %s", what) : 0;
}

int delta_load(const char *path, bool sealed, const struct guest_memory *memory, struct err *err)
{
	return unload(path, sealed, memory->bytes, to_process, (void *)(uintptr_t)memory,
		"the machine's memory", err);
}

int delta_apply(const char *path, bool sealed, const char *memory_path, uint64_t bytes,
	struct err *err)
{
	_cleanup_close_ int fd = open(memory_path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set_errno(err, -errno, "can't open %s", memory_path);
	return unload(path, sealed, bytes, to_file, &fd, memory_path, err);
}
