/* SPDX-License-Identifier: Apache-2.0 */
/* A captured machine as one stream of bytes. */
#include "core/state_file.h"

#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/buf.h"

enum {
	HASH_BYTES = 32,
	BLOCK = 64 << 10,           /* of a file, looked at and written at once */
	RECORD_BYTES_MAX = 1 << 20, /* that we accept */
	MANIFEST_BYTES_MAX = 1 << 20,
	WINDOW_LOG_MAX = 23,
	LEVEL = 3,
	KIND_END = 255,
};

static const char magic[8] = "PSSNAP01";

struct preamble {
	char magic[8];
	uint32_t manifest_bytes;
} __attribute__((packed));

struct record {
	uint8_t kind;
	uint8_t zeros[3];
	uint32_t len;
	uint64_t offset;
};
static_assert(sizeof(struct record) == 16, "no padding");

static const char *const names[] = {
	[STATE_DEVICES] = "devices",
	[STATE_DISK] = "scratch.ext4",
	[STATE_MEMORY] = "memory",
};
static_assert(ARRAY_SIZE(names) == _STATE_MEMBER_MAX, "every member has a name");

const char *state_member_name(enum state_member m)
{
	return names[m];
}

/* ---- writing ---- */

struct state_writer {
	int fds[_STATE_MEMBER_MAX]; /* owned */
	off_t sizes[_STATE_MEMBER_MAX];
	unsigned int member; /* _STATE_MEMBER_MAX: the end record comes next */
	off_t at;
	bool ended;     /* all that there is lies in `raw` */
	bool done;      /* the frame is complete */
	struct buf raw; /* not compressed yet */
	size_t taken;   /* of `raw` */
	ZSTD_CCtx *zstd;
	crypto_generichash_state hash;
};

struct state_writer *state_writer_free(struct state_writer *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(w->fds); i++)
		cleanup_close(&w->fds[i]);
	buf_done(&w->raw);
	(void)ZSTD_freeCCtx(w->zstd);
	free(w);
	return NULL;
}

static void put(struct state_writer *w, const void *data, size_t len)
{
	if (buf_append(&w->raw, data, len) < 0)
		abort(); /* its bound is that of what we put there */
}

static int put_manifest(struct state_writer *w, json_t *manifest, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct preamble preamble;
	json_t *files = json_object();
	struct stat st;

	for (unsigned int m = 0; m < _STATE_MEMBER_MAX; m++) {
		if (fstat(w->fds[m], &st) < 0) {
			json_decref(files);
			return err_set_errno(err, -errno, "can't read %s", names[m]);
		}
		w->sizes[m] = st.st_size;
		(void)json_object_set_new(files, names[m], json_integer(st.st_size));
	}
	(void)json_object_set_new(manifest, "files", files);
	text = json_dumps(manifest, JSON_COMPACT);
	if (!text || strlen(text) > MANIFEST_BYTES_MAX)
		return err_set(err, ERR_INTERNAL, -EMSGSIZE, "the snapshot's manifest is too long");
	memcpy(preamble.magic, magic, sizeof(magic));
	preamble.manifest_bytes = htole32((uint32_t)strlen(text));
	put(w, &preamble, sizeof(preamble));
	put(w, text, strlen(text));
	return 0;
}

int state_writer_new(json_t *manifest, int fds[_STATE_MEMBER_MAX], struct state_writer **ret,
	struct err *err)
{
	_cleanup_state_writer_ struct state_writer *w = xnew(struct state_writer);
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(w->fds); i++)
		w->fds[i] = steal_fd(&fds[i]);
	w->raw = buf_init(MANIFEST_BYTES_MAX + sizeof(struct preamble) + BLOCK);
	w->zstd = ZSTD_createCCtx();
	if (!w->zstd)
		abort();
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, LEVEL); /* known to each */
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
	(void)crypto_generichash_init(&w->hash, NULL, 0, HASH_BYTES); /* never fails with these */
	r = put_manifest(w, manifest, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(&w);
	return 0;
}

static bool all_zeros(const char *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static void put_record(struct state_writer *w, unsigned int kind, off_t offset, const void *data,
	size_t len)
{
	const struct record record = {
		.kind = (uint8_t)kind,
		.len = htole32((uint32_t)len),
		.offset = htole64((uint64_t)offset),
	};

	put(w, &record, sizeof(record));
	put(w, data, len);
}

/* Puts the next block that is not zeros, or the end, into `raw`. */
static int next_record(struct state_writer *w)
{
	char block[BLOCK];

	while (w->member < _STATE_MEMBER_MAX) {
		int fd = w->fds[w->member];
		off_t from = w->at, data = lseek(fd, w->at, SEEK_DATA);
		ssize_t n;

		if (data < 0 && errno != ENXIO)
			return -errno;
		if (data < 0 || data >= w->sizes[w->member]) { /* zeros to the end */
			w->member++;
			w->at = 0;
			continue;
		}
		from = MAX(from, data / BLOCK * BLOCK);
		n = pread(fd, block, (size_t)MIN((off_t)BLOCK, w->sizes[w->member] - from), from);
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		w->at = from + n;
		if (!all_zeros(block, (size_t)n)) {
			put_record(w, w->member, from, block, (size_t)n);
			return 0;
		}
	}
	(void)crypto_generichash_final(&w->hash, (uint8_t *)block, HASH_BYTES);
	put_record(w, KIND_END, 0, block, HASH_BYTES);
	w->ended = true;
	return 0;
}

ssize_t state_writer_read(struct state_writer *w, void *dst, size_t max)
{
	ZSTD_outBuffer out = {.dst = dst, .size = max};

	while (out.pos == 0 && !w->done) {
		ZSTD_inBuffer in = {.src = w->raw.data, .size = w->raw.len, .pos = w->taken};
		size_t left = ZSTD_compressStream2(w->zstd, &out, &in,
			w->ended ? ZSTD_e_end : ZSTD_e_continue);
		int r;

		if (ZSTD_isError(left))
			return -ENOMEM; /* nothing else can go wrong there */
		w->taken = in.pos;
		w->done = w->ended && left == 0;
		if (w->ended || w->taken < w->raw.len)
			continue;
		(void)crypto_generichash_update(&w->hash, (const uint8_t *)w->raw.data, w->raw.len);
		buf_clear(&w->raw);
		w->taken = 0;
		r = next_record(w);
		if (r < 0)
			return r;
	}
	return (ssize_t)out.pos;
}

/* ---- reading ---- */

enum part {
	PART_PREAMBLE,
	PART_MANIFEST,
	PART_RECORD,
	PART_DATA,
	PART_HASH,
	PART_END,
};

struct state_reader {
	const struct state_reader_ops *ops; /* borrowed */
	void *user;                         /* borrowed */
	ZSTD_DCtx *zstd;
	bool frame_over;
	enum part part;
	struct buf head; /* what is gathered until it is `want` long: all but data */
	size_t want;
	uint64_t sizes[_STATE_MEMBER_MAX];
	struct record record;             /* in this machine's byte order */
	uint64_t next[_STATE_MEMBER_MAX]; /* the first offset that no record had */
	unsigned int member;
	crypto_generichash_state hash;
	char plain[BLOCK]; /* not on the stack, where JSON may take much */
};

static int damaged(struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, -EBADMSG, "this is no whole, undamaged snapshot file: %s",
		what);
}

struct state_reader *state_reader_new(const struct state_reader_ops *ops, void *user)
{
	struct state_reader *r = xnew(struct state_reader);

	r->ops = ops;
	r->user = user;
	r->zstd = ZSTD_createDCtx();
	if (!r->zstd)
		abort();
	(void)ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	r->head = buf_init(MANIFEST_BYTES_MAX);
	r->want = sizeof(struct preamble);
	(void)crypto_generichash_init(&r->hash, NULL, 0, HASH_BYTES); /* never fails with these */
	return r;
}

struct state_reader *state_reader_free(struct state_reader *r)
{
	if (!r)
		return NULL;
	buf_done(&r->head);
	(void)ZSTD_freeDCtx(r->zstd);
	free(r);
	return NULL;
}

static void hash(struct state_reader *r, const void *data, size_t len)
{
	(void)crypto_generichash_update(&r->hash, data, len);
}

static void go_to(struct state_reader *r, enum part part, size_t want)
{
	buf_clear(&r->head);
	r->part = part;
	r->want = want;
}

static int take_preamble(struct state_reader *r, struct err *err)
{
	struct preamble p;

	memcpy(&p, r->head.data, sizeof(p));
	if (memcmp(p.magic, magic, sizeof(magic)) != 0)
		return damaged(err, "it has another beginning");
	p.manifest_bytes = le32toh(p.manifest_bytes);
	if (p.manifest_bytes == 0 || p.manifest_bytes > MANIFEST_BYTES_MAX)
		return damaged(err, "its manifest is too long");
	hash(r, r->head.data, r->head.len);
	go_to(r, PART_MANIFEST, p.manifest_bytes);
	return 0;
}

static int read_sizes(const json_t *manifest, uint64_t sizes[_STATE_MEMBER_MAX], struct err *err)
{
	const json_t *files = json_object_get(manifest, "files");

	for (unsigned int m = 0; m < _STATE_MEMBER_MAX; m++) {
		json_int_t size = json_integer_value(json_object_get(files, names[m]));

		if (size <= 0)
			return damaged(err, "its manifest names no lengths");
		sizes[m] = (uint64_t)size;
	}
	return 0;
}

static int take_manifest(struct state_reader *r, struct err *err)
{
	json_t *manifest = json_loadb(r->head.data, r->head.len, JSON_REJECT_DUPLICATES, NULL);
	int ret = json_is_object(manifest) ? read_sizes(manifest, r->sizes, err)
					   : damaged(err, "its manifest is no JSON");

	if (ret == 0)
		ret = r->ops->manifest(manifest, r->sizes, r->user, err);
	json_decref(manifest);
	if (ret < 0)
		return ret;
	hash(r, r->head.data, r->head.len);
	go_to(r, PART_RECORD, sizeof(struct record));
	return 0;
}

static int take_record(struct state_reader *r, struct err *err)
{
	struct record *rec = &r->record;

	memcpy(rec, r->head.data, sizeof(*rec));
	rec->len = le32toh(rec->len);
	rec->offset = le64toh(rec->offset);
	if (rec->zeros[0] || rec->zeros[1] || rec->zeros[2])
		return damaged(err, "a record is of no known kind");
	if (rec->kind == KIND_END) {
		if (rec->len != HASH_BYTES || rec->offset != 0)
			return damaged(err, "its end is wrong");
		go_to(r, PART_HASH, HASH_BYTES);
		return 0;
	}
	if (rec->kind >= _STATE_MEMBER_MAX || rec->kind < r->member)
		return damaged(err, "a record is of no known kind");
	r->member = rec->kind;
	if (rec->len == 0 || rec->len > RECORD_BYTES_MAX || rec->offset < r->next[rec->kind] ||
		rec->offset > r->sizes[rec->kind] || rec->len > r->sizes[rec->kind] - rec->offset)
		return damaged(err, "a record lies outside of its file");
	r->next[rec->kind] = rec->offset + rec->len;
	hash(r, r->head.data, r->head.len);
	go_to(r, PART_DATA, 0);
	return 0;
}

static int take_hash(struct state_reader *r, struct err *err)
{
	uint8_t own[HASH_BYTES];

	(void)crypto_generichash_final(&r->hash, own, sizeof(own));
	if (sodium_memcmp(own, r->head.data, sizeof(own)) != 0)
		return damaged(err, "its hash is wrong");
	go_to(r, PART_END, 0);
	return 0;
}

static int take_head(struct state_reader *r, struct err *err)
{
	switch (r->part) {
	case PART_PREAMBLE:
		return take_preamble(r, err);
	case PART_MANIFEST:
		return take_manifest(r, err);
	case PART_RECORD:
		return take_record(r, err);
	case PART_HASH:
		return take_hash(r, err);
	case PART_DATA:
	case PART_END:
		break;
	}
	assert(false);
	return -EINVAL;
}

/* Bytes of a record go on as they come. Returns how many. */
static ssize_t take_data(struct state_reader *r, const char *data, size_t len, struct err *err)
{
	struct record *rec = &r->record;
	size_t n = MIN(len, (size_t)rec->len);
	int ret = r->ops->data((enum state_member)rec->kind, rec->offset, data, n, r->user, err);

	if (ret < 0)
		return ret;
	hash(r, data, n);
	rec->offset += n;
	rec->len -= (uint32_t)n;
	if (rec->len == 0)
		go_to(r, PART_RECORD, sizeof(struct record));
	return (ssize_t)n;
}

/* Takes bytes that are no longer compressed. */
static int take(struct state_reader *r, const char *data, size_t len, struct err *err)
{
	while (len > 0) {
		ssize_t n;
		int ret = 0;

		if (r->part == PART_END)
			return damaged(err, "there is something behind its end");
		if (r->part == PART_DATA) {
			n = take_data(r, data, len, err);
		} else {
			n = (ssize_t)MIN(len, r->want - r->head.len);
			if (buf_append(&r->head, data, (size_t)n) < 0)
				return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
			if (r->head.len == r->want)
				ret = take_head(r, err);
		}
		if (n < 0 || ret < 0)
			return n < 0 ? (int)n : ret;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int state_reader_feed(struct state_reader *r, const void *data, size_t len, struct err *err)
{
	ZSTD_inBuffer in = {.src = data, .size = len};
	bool full = false;

	/* A full buffer may mean that there is more to come out. */
	while (in.pos < in.size || full) {
		ZSTD_outBuffer out = {.dst = r->plain, .size = sizeof(r->plain)};
		size_t left;
		int ret;

		if (r->frame_over)
			return in.pos < in.size ? damaged(err, "there is something behind its end")
						: 0;
		left = ZSTD_decompressStream(r->zstd, &out, &in);
		if (ZSTD_isError(left))
			return damaged(err, ZSTD_getErrorName(left));
		r->frame_over = left == 0;
		full = out.pos == out.size;
		ret = take(r, r->plain, out.pos, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int state_reader_end(struct state_reader *r, struct err *err)
{
	if (r->part != PART_END || !r->frame_over)
		return damaged(err, "it ends too early");
	return 0;
}
