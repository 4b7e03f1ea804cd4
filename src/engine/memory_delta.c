/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that a machine has written since it was started, as a file. */
#include "engine/memory_delta.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/fs.h"
#include "base/macros.h"

enum {
	PAGE = GUEST_PAGE_BYTES,
	HASH_BYTES = 32,
	STORED_BYTES = 128 << 10, /* of a zstd frame, read or written at once */
	LEVEL = 1,
	WINDOW_LOG = 19, /* that of the level: 512 KiB, which a reader must hold */
};

static const char magic[8] = "PSDELTA2";

struct delta_header {
	char magic[8];
	uint64_t memory_bytes;
	uint64_t n_extents;
	uint64_t n_pages;
	uint64_t packed;          /* 0: the pages lie there as they are; 1: as one zstd frame */
	uint8_t hash[HASH_BYTES]; /* of all else, with zeros here; zeros: not sealed */
};
static_assert(sizeof(struct delta_header) == 72, "no padding");

/* Where the pages begin in the file. */
static off_t data_offset(uint64_t n_extents)
{
	size_t bytes = sizeof(struct delta_header) + (size_t)n_extents * sizeof(struct extent);

	return (off_t)((bytes + PAGE - 1) / PAGE * PAGE);
}

/* The extents and the padding behind them. */
static size_t extents_bytes(uint64_t n_extents)
{
	return (size_t)data_offset(n_extents) - sizeof(struct delta_header);
}

static int write_pages(int fd, const struct guest_memory *memory, const struct extents *e)
{
	_cleanup_free_ char *chunk = xcalloc(1, RUNS_BYTES_MAX);
	struct runs runs = {0};
	int r = 0;

	while (r == 0 && runs_next(&runs, e)) {
		r = guest_memory_read(memory, &runs, chunk);
		if (r == 0)
			r = fs_write_all(fd, chunk, runs.bytes);
	}
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
	r = guest_memory_written(memory, &e);
	if (r == 0 && base)
		r = guest_memory_drop_same(memory, base, &e);
	memcpy(header.magic, magic, sizeof(magic));
	header.n_extents = e.n;
	header.n_pages = e.n_pages;
	if (r == 0)
		r = fs_write_all(fd, &header, sizeof(header));
	if (r == 0)
		r = fs_write_all(fd, e.all, e.n * sizeof(struct extent));
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
	crypto_generichash_state hash; /* of what was read so far */
	struct delta_header header;
	struct extents extents;
	off_t at, end; /* what is stored of the pages: the next byte, and the end of the file */
	/* Of packed pages: */
	ZSTD_DCtx *zstd;
	char *stored; /* STORED_BYTES */
	ZSTD_inBuffer in;
	bool frame_over;

	bool sealed, hashing;
	int fd;
};

static void delta_close(struct delta *d)
{
	cleanup_close(&d->fd);
	extents_done(&d->extents);
	(void)ZSTD_freeDCtx(d->zstd);
	free(d->stored);
}

static int err_damaged(const char *path, struct err *err)
{
	return err_set(err, ERR_SNAPSHOT_DAMAGED, -EBADMSG,
		"%s is damaged: it is not what was written", path);
}

static bool header_fits(const struct delta_header *h, uint64_t memory_bytes, off_t file_bytes)
{
	if (memcmp(h->magic, magic, sizeof(magic)) != 0 || h->memory_bytes != memory_bytes ||
		h->n_extents > EXTENTS_MAX || h->n_pages > memory_bytes / PAGE || h->packed > 1)
		return false;
	file_bytes -= data_offset(h->n_extents);
	return h->packed ? file_bytes > 0 : file_bytes == (off_t)(h->n_pages * PAGE);
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

/* The hash of what comes before the pages. */
static void begin_hash(crypto_generichash_state *hash, const struct delta_header *header,
	const struct extents *e)
{
	struct delta_header blank = *header;

	memset(blank.hash, 0, HASH_BYTES);
	(void)crypto_generichash_init(hash, NULL, 0, HASH_BYTES); /* never fails with these sizes */
	(void)crypto_generichash_update(hash, (const uint8_t *)&blank, sizeof(blank));
	(void)crypto_generichash_update(hash, (const uint8_t *)e->all, extents_bytes(e->n));
}

static void unpack_init(struct delta *d)
{
	d->stored = xcalloc(1, STORED_BYTES);
	d->zstd = ZSTD_createDCtx();
	if (!d->zstd)
		abort();
	(void)ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, WINDOW_LOG); /* it is known */
}

static int delta_open(struct delta *d, const char *path, uint64_t memory_bytes, struct err *err)
{
	static const uint8_t zeros[HASH_BYTES];
	struct delta_header *h = &d->header;
	struct stat st;

	d->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st) < 0)
		return err_set_errno(err, -errno, "can't open %s", path);
	if (fs_pread_all(d->fd, h, sizeof(*h), 0) < 0 || !header_fits(h, memory_bytes, st.st_size))
		return err_damaged(path, err);
	d->extents.all = xcalloc(1, extents_bytes(h->n_extents)); /* the file is longer */
	d->extents.n = (size_t)h->n_extents;
	d->extents.n_pages = h->n_pages;
	if (fs_pread_all(d->fd, d->extents.all, extents_bytes(h->n_extents), sizeof(*h)) < 0 ||
		!extents_fit(d))
		return err_damaged(path, err);
	d->sealed = memcmp(h->hash, zeros, HASH_BYTES) != 0;
	d->at = data_offset(h->n_extents);
	d->end = st.st_size;
	begin_hash(&d->hash, h, &d->extents);
	if (h->packed)
		unpack_init(d);
	return 0;
}

static int read_stored(struct delta *d, void *data, size_t len)
{
	int r = fs_pread_all(d->fd, data, len, d->at);

	if (r < 0)
		return r;
	if (d->hashing)
		(void)crypto_generichash_update(&d->hash, data, len);
	d->at += (off_t)len;
	return 0;
}

/* Pages out of the frame. Returns how many bytes: fewer only at its end. */
static ssize_t unpack(struct delta *d, void *data, size_t len)
{
	ZSTD_outBuffer out = {.dst = data, .size = len};

	while (out.pos < out.size && !d->frame_over) {
		size_t left = ZSTD_decompressStream(d->zstd, &out, &d->in);
		size_t n = (size_t)MIN(d->end - d->at, (off_t)STORED_BYTES);
		int r;

		if (ZSTD_isError(left))
			return -EBADMSG;
		d->frame_over = left == 0;
		if (d->frame_over || out.pos == out.size || d->in.pos < d->in.size)
			continue;
		r = n == 0 ? -ENODATA : read_stored(d, d->stored, n);
		if (r < 0)
			return r;
		d->in = (ZSTD_inBuffer){.src = d->stored, .size = n};
	}
	return (ssize_t)out.pos;
}

static int read_chunk(struct delta *d, void *data, size_t len)
{
	ssize_t n;

	if (!d->header.packed)
		return read_stored(d, data, len);
	n = unpack(d, data, len);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EBADMSG;
}

/* Behind the last page nothing may come, in the frame or in the file. */
static int read_end(struct delta *d)
{
	char more;
	ssize_t n = d->header.packed ? unpack(d, &more, 1) : 0;

	if (n < 0)
		return (int)n;
	return n == 0 && d->in.pos == d->in.size && d->at == d->end ? 0 : -EBADMSG;
}

/* Takes a chunk. */
typedef int sink_fn(void *user, const struct runs *runs, void *data);

/* Gives all pages to the sink (NULL: nobody), and makes the hash (unless NULL). */
static int read_pages(struct delta *d, sink_fn *sink, void *user, uint8_t ret_hash[HASH_BYTES])
{
	_cleanup_free_ char *chunk = xcalloc(1, RUNS_BYTES_MAX);
	struct runs runs = {0};
	int r = 0;

	d->hashing = ret_hash != NULL;
	while (r == 0 && runs_next(&runs, &d->extents)) {
		r = read_chunk(d, chunk, runs.bytes);
		if (r == 0 && sink)
			r = sink(user, &runs, chunk);
	}
	if (r == 0)
		r = read_end(d);
	if (r == 0 && ret_hash)
		(void)crypto_generichash_final(&d->hash, ret_hash, HASH_BYTES);
	return r;
}

/* The same of a sealed file, whose hash must be right. */
static int read_sealed(struct delta *d, sink_fn *sink, void *user)
{
	uint8_t hash[HASH_BYTES];
	int r = read_pages(d, sink, user, hash);

	return r == 0 && sodium_memcmp(hash, d->header.hash, HASH_BYTES) != 0 ? -EBADMSG : r;
}

static int put_hash(int fd, const uint8_t hash[HASH_BYTES])
{
	return fs_pwrite_all(fd, hash, HASH_BYTES, offsetof(struct delta_header, hash));
}

static int seal_as_it_is(struct delta *d, int fd)
{
	uint8_t hash[HASH_BYTES];
	int r = read_pages(d, NULL, NULL, hash);

	return r == 0 ? put_hash(fd, hash) : r;
}

/* ---- packing it ---- */

struct packer {
	int fd; /* owned */
	ZSTD_CCtx *zstd;
	char *stored;                  /* STORED_BYTES */
	crypto_generichash_state hash; /* of what was written so far */
};

static void packer_done(struct packer *p)
{
	cleanup_close(&p->fd);
	(void)ZSTD_freeCCtx(p->zstd);
	free(p->stored);
}

static void packer_init(struct packer *p)
{
	p->stored = xcalloc(1, STORED_BYTES);
	p->zstd = ZSTD_createCCtx();
	if (!p->zstd)
		abort();
	(void)ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, LEVEL); /* all are known */
	(void)ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_windowLog, WINDOW_LOG);
}

static int pack(struct packer *p, const void *data, size_t len, ZSTD_EndDirective how)
{
	ZSTD_inBuffer in = {.src = data, .size = len};
	size_t left;
	int r;

	do {
		ZSTD_outBuffer out = {.dst = p->stored, .size = STORED_BYTES};

		left = ZSTD_compressStream2(p->zstd, &out, &in, how);
		if (ZSTD_isError(left))
			return -ENOMEM; /* nothing else can go wrong there */
		(void)crypto_generichash_update(&p->hash, (const uint8_t *)p->stored, out.pos);
		r = fs_write_all(p->fd, p->stored, out.pos);
	} while (r == 0 && (in.pos < in.size || (how == ZSTD_e_end && left > 0)));
	return r;
}

static int to_packer(void *user, const struct runs *runs, void *data)
{
	return pack(user, data, runs->bytes, ZSTD_e_continue);
}

/* Writes it to a new file: packed and sealed. */
static int write_packed(struct delta *d, const char *path)
{
	CLEANUP(packer_done) struct packer p = {.fd = -1};
	struct delta_header header = d->header;
	uint8_t hash[HASH_BYTES];
	int r;

	p.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (p.fd < 0)
		return -errno;
	packer_init(&p);
	header.packed = 1;
	begin_hash(&p.hash, &header, &d->extents);
	r = fs_write_all(p.fd, &header, sizeof(header));
	if (r == 0)
		r = fs_write_all(p.fd, d->extents.all, extents_bytes(d->extents.n));
	if (r == 0)
		r = d->sealed ? read_sealed(d, to_packer, &p) : read_pages(d, to_packer, &p, NULL);
	if (r == 0)
		r = pack(&p, NULL, 0, ZSTD_e_end);
	if (r < 0)
		return r;
	(void)crypto_generichash_final(&p.hash, hash, HASH_BYTES);
	return put_hash(p.fd, hash);
}

static int replace_by_packed(struct delta *d, const char *path)
{
	_cleanup_free_ char *work = NULL;
	int r;

	if (asprintf(&work, "%s.packed", path) < 0)
		abort();
	r = write_packed(d, work);
	if (r == 0 && rename(work, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(work); /* it may not even be there */
	return r;
}

/* Of a memory of any length. */
static int delta_open_any(struct delta *d, const char *path, int fd, struct err *err)
{
	struct delta_header header;

	if (fd < 0)
		return err_set_errno(err, -errno, "can't open %s", path);
	if (fs_pread_all(fd, &header, sizeof(header), 0) < 0)
		return err_damaged(path, err);
	return delta_open(d, path, header.memory_bytes, err);
}

int delta_check(const char *path, uint64_t *ret_bytes, struct err *err)
{
	CLEANUP(delta_close) struct delta d = {.fd = -1};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = delta_open_any(&d, path, fd, err);

	if (r < 0)
		return r;
	r = d.sealed ? read_sealed(&d, NULL, NULL) : -EBADMSG;
	if (r == -EBADMSG || r == -ENODATA)
		return err_damaged(path, err);
	if (r < 0)
		return err_set_errno(err, r, "can't read %s", path);
	if (ret_bytes)
		*ret_bytes = d.extents.n_pages * PAGE;
	return 0;
}

int delta_seal(const char *path, bool compress, struct err *err)
{
	CLEANUP(delta_close) struct delta d = {.fd = -1};
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	int r = delta_open_any(&d, path, fd, err);

	if (r < 0)
		return r;
	if (compress && !d.header.packed)
		r = replace_by_packed(&d, path);
	else if (d.sealed)
		r = read_sealed(&d, NULL, NULL);
	else
		r = seal_as_it_is(&d, fd);
	if (r == -EBADMSG || r == -ENODATA)
		return err_damaged(path, err);
	return r < 0 ? err_set_errno(err, r, "can't write %s", path) : 0;
}

static int to_process(void *user, const struct runs *runs, void *data)
{
	return guest_memory_write(user, runs, data);
}

static int to_file(void *user, const struct runs *runs, void *data)
{
	const int *fd = user;
	const char *from = data;
	int r = 0;

	for (size_t i = 0; r == 0 && i < runs->n; i++) {
		r = fs_pwrite_all(*fd, from, runs->at[i].iov_len,
			(off_t)(uintptr_t)runs->at[i].iov_base);
		from += runs->at[i].iov_len;
	}
	return r;
}

static int unload(const char *path, uint64_t bytes, sink_fn *sink, void *user, const char *what,
	struct err *err)
{
	CLEANUP(delta_close) struct delta d = {.fd = -1};
	int r = delta_open(&d, path, bytes, err);

	if (r < 0)
		return r;
	r = read_pages(&d, sink, user, NULL);
	if (r == -EBADMSG || r == -ENODATA)
		return err_damaged(path, err);
	return r < 0 ? err_set_errno(err, r, "can't write %s", what) : 0;
}

int delta_load(const char *path, const struct guest_memory *memory, struct err *err)
{
	return unload(path, memory->bytes, to_process, (void *)(uintptr_t)memory,
		"the machine's memory", err);
}

int delta_apply(const char *path, const char *memory_path, uint64_t bytes, struct err *err)
{
	_cleanup_close_ int fd = open(memory_path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set_errno(err, -errno, "can't open %s", memory_path);
	return unload(path, bytes, to_file, &fd, memory_path, err);
}
