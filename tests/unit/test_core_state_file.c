/* SPDX-License-Identifier: Apache-2.0 */
/* A captured machine as a stream: out and in again, in pieces of any length; and every kind of damage. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/buf.h"
#include "core/state_file.h"
#include "scratch.h"

enum { DISK_BYTES = 1 << 20, MEMORY_BYTES = 300000 };

/* What a reader gave. */
struct taken {
	char *files[_STATE_MEMBER_MAX]; /* owned */
	uint64_t sizes[_STATE_MEMBER_MAX];
	int refuse; /* what the manifest is answered with */
	char note[32];
};

static int on_manifest(const json_t *m, const uint64_t sizes[_STATE_MEMBER_MAX], void *user,
	struct err *err)
{
	struct taken *t = user;

	for (int i = 0; i < _STATE_MEMBER_MAX; i++) {
		assert_null(t->files[i]);
		t->sizes[i] = MIN(sizes[i], (uint64_t)MIB(2));
		t->files[i] = xcalloc(1, t->sizes[i]);
	}
	if (json_is_string(json_object_get(m, "note")))
		(void)snprintf(t->note, sizeof(t->note), "%s",
			json_string_value(json_object_get(m, "note")));
	return t->refuse ? err_set(err, ERR_CONFLICT, t->refuse, "refused") : 0;
}

static int on_data(enum state_member m, uint64_t offset, const void *data, size_t len, void *user,
	struct err *err)
{
	struct taken *t = user;

	assert_true(offset <= t->sizes[m] && len <= t->sizes[m] - offset);
	memcpy(t->files[m] + offset, data, len);
	return 0;
}

static const struct state_reader_ops ops = {.manifest = on_manifest, .data = on_data};

static void taken_done(struct taken *t)
{
	for (int i = 0; i < _STATE_MEMBER_MAX; i++)
		free(t->files[i]);
}

static int open_file(const char *dir, const char *name, off_t size)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

/* A stream of three files with this and that in them. */
static struct buf make_stream(const char *dir, size_t piece)
{
	_cleanup_state_writer_ struct state_writer *w = NULL;
	_cleanup_free_ char *bytes = xcalloc(1, piece);
	int fds[] = {open_file(dir, "devices", 7), open_file(dir, "disk", DISK_BYTES),
		open_file(dir, "memory", MEMORY_BYTES)};
	json_t *manifest = json_pack("{s:s}", "note", "hello");
	struct buf stream = buf_init(MIB(4));
	ssize_t n;

	assert_int_equal(pwrite(fds[0], "devices", 7, 0), 7);
	assert_int_equal(pwrite(fds[1], "begin", 5, 0), 5);
	assert_int_equal(pwrite(fds[1], "end", 3, DISK_BYTES - 3), 3);
	assert_int_equal(pwrite(fds[2], "page", 4, 131070), 4); /* over the border of a block */
	assert_int_equal(pwrite(fds[2], "last", 4, MEMORY_BYTES - 4), 4);
	assert_int_equal(state_writer_new(manifest, fds, &w, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(fds[i], -1);
	while ((n = state_writer_read(w, bytes, piece)) > 0)
		assert_int_equal(buf_append(&stream, bytes, (size_t)n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(state_writer_read(w, bytes, piece), 0); /* the end stays the end */
	json_decref(manifest);
	return stream;
}

static int read_stream(const void *data, size_t len, size_t piece, struct taken *t, struct err *err)
{
	_cleanup_state_reader_ struct state_reader *r = state_reader_new(&ops, t);
	int ret = 0;

	for (size_t at = 0; ret == 0 && at < len; at += piece)
		ret = state_reader_feed(r, (const char *)data + at, MIN(piece, len - at), err);
	return ret == 0 ? state_reader_end(r, err) : ret;
}

static void check(const struct taken *t)
{
	assert_string_equal(t->note, "hello");
	assert_int_equal(t->sizes[STATE_DEVICES], 7);
	assert_memory_equal(t->files[STATE_DEVICES], "devices", 7);
	assert_memory_equal(t->files[STATE_DISK], "begin", 6);
	assert_memory_equal(t->files[STATE_DISK] + DISK_BYTES - 4, "\0end", 4);
	assert_memory_equal(t->files[STATE_MEMORY] + 131069, "\0page", 6);
	assert_memory_equal(t->files[STATE_MEMORY] + MEMORY_BYTES - 4, "last", 4);
}

static void test_round_trip(void **state)
{
	static const size_t pieces[] = {1, 3, 100, 65536, 1 << 20};

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf stream = make_stream(*state, pieces[i]);
		struct taken t = {0};
		struct err err = {0};

		if (read_stream(stream.data, stream.len, pieces[i], &t, &err) < 0)
			fail_msg("%s", err.msg);
		check(&t);
		taken_done(&t);
	}
}

/* Refused, or what was written: a few bits of a frame (of its window's size, say) change nothing. */
static int read_all(const void *data, size_t len)
{
	struct taken t = {0};
	struct err err = {0};
	int r = read_stream(data, len, 4096, &t, &err);

	assert_true(r == 0 || err.kind == ERR_INVALID);
	if (r == 0 && t.note[0])
		check(&t);
	taken_done(&t);
	return r;
}

static void test_truncated_and_flipped(void **state)
{
	_cleanup_buf_ struct buf stream = make_stream(*state, 65536);

	for (size_t i = 0; i < stream.len; i++)
		assert_int_equal(read_all(stream.data, i), -EBADMSG);
	for (size_t i = 0; i < stream.len; i++) {
		stream.data[i] = (char)(stream.data[i] ^ 0x04);
		(void)read_all(stream.data, stream.len);
		stream.data[i] = (char)(stream.data[i] ^ 0x04);
	}
	assert_int_equal(read_all(stream.data, stream.len), 0);
}

static void test_trailing(void **state)
{
	_cleanup_buf_ struct buf stream = make_stream(*state, 65536);
	_cleanup_buf_ struct buf twice = buf_init(MIB(4));

	assert_int_equal(buf_append(&twice, stream.data, stream.len), 0);
	assert_int_equal(buf_append(&twice, stream.data, stream.len), 0);
	assert_int_equal(read_all(twice.data, twice.len), -EBADMSG);
	assert_int_equal(read_all(twice.data, stream.len + 1), -EBADMSG);
}

static void test_refusal(void **state)
{
	_cleanup_buf_ struct buf stream = make_stream(*state, 65536);
	struct taken t = {.refuse = -EXDEV};
	struct err err = {0};

	assert_int_equal(read_stream(stream.data, stream.len, 4096, &t, &err), -EXDEV);
	assert_int_equal(err.kind, ERR_CONFLICT);
	taken_done(&t);
}

/* ---- by hand ---- */

#define FILES "{\"files\":{\"devices\":7,\"scratch.ext4\":1000,\"memory\":1000}}"

static void put_start(struct buf *b, const char *manifest)
{
	uint32_t len = (uint32_t)strlen(manifest);

	assert_int_equal(buf_append(b, "PSSNAP01", 8), 0);
	assert_int_equal(buf_append(b, &len, 4), 0); /* little-endian, as all that we run on */
	assert_int_equal(buf_append(b, manifest, len), 0);
}

static void put_record(struct buf *b, uint8_t kind, uint32_t len, uint64_t offset, const char *data,
	size_t n)
{
	uint8_t head[4] = {kind};

	assert_int_equal(buf_append(b, head, 4), 0);
	assert_int_equal(buf_append(b, &len, 4), 0);
	assert_int_equal(buf_append(b, &offset, 8), 0);
	assert_int_equal(buf_append(b, data, n), 0);
}

static void put_end(struct buf *b)
{
	uint8_t hash[32];

	assert_int_equal(crypto_generichash(hash, sizeof(hash), (const uint8_t *)b->data, b->len,
				 NULL, 0),
		0);
	put_record(b, 255, 32, 0, (const char *)hash, 32);
}

static int read_plain(const struct buf *b)
{
	size_t bound = ZSTD_compressBound(b->len);
	_cleanup_free_ char *packed = xcalloc(1, bound);
	size_t len = ZSTD_compress(packed, bound, b->data, b->len, 1);

	assert_false(ZSTD_isError(len));
	return read_all(packed, len);
}

static void test_records(void **state)
{
	static const struct {
		const char *what;
		uint64_t records[2][3]; /* kind, length, offset */
		int want;
	} cases[] = {
		{"good", {{0, 7, 0}, {1, 10, 5}}, 0},
		{"same file", {{1, 7, 0}, {1, 10, 7}}, 0},
		{"overlap", {{1, 7, 0}, {1, 10, 6}}, -EBADMSG},
		{"backwards", {{1, 7, 100}, {1, 10, 0}}, -EBADMSG},
		{"earlier file", {{1, 7, 0}, {0, 7, 0}}, -EBADMSG},
		{"no such file", {{0, 7, 0}, {3, 7, 0}}, -EBADMSG},
		{"empty", {{0, 7, 0}, {1, 0, 0}}, -EBADMSG},
		{"over the end", {{0, 7, 0}, {1, 10, 991}}, -EBADMSG},
		{"behind the end", {{0, 7, 0}, {1, 1, 1001}}, -EBADMSG},
		{"overflow", {{0, 7, 0}, {1, 10, UINT64_MAX - 5}}, -EBADMSG},
	};
	static const char data[1000];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = buf_init(MIB(1));

		put_start(&b, FILES);
		for (int k = 0; k < 2; k++) {
			const uint64_t *r = cases[i].records[k];

			put_record(&b, (uint8_t)r[0], (uint32_t)r[1], r[2], data, r[1]);
		}
		put_end(&b);
		if (read_plain(&b) != cases[i].want)
			fail_msg("%s", cases[i].what);
	}
}

static void test_manifests(void **state)
{
	static const char *const bad[] = {"[]", "{}", "{\"files\":1}", "no JSON", "{\"files\":{}}",
		"{\"files\":{\"devices\":7,\"scratch.ext4\":1000}}",
		"{\"files\":{\"devices\":-7,\"scratch.ext4\":1000,\"memory\":1000}}",
		"{\"files\":{\"devices\":7,\"scratch.ext4\":\"x\",\"memory\":1000}}",
		"{\"a\":1,\"a\":1,"
		"\"files\":{\"devices\":7,\"scratch.ext4\":1000,\"memory\":1000}}"};
	_cleanup_buf_ struct buf good = buf_init(MIB(1));

	put_start(&good, FILES);
	put_end(&good);
	assert_int_equal(read_plain(&good), 0); /* all zeros */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf b = buf_init(MIB(1));

		put_start(&b, bad[i]);
		put_end(&b);
		if (read_plain(&b) != -EBADMSG)
			fail_msg("%s", bad[i]);
	}
}

static void test_lengths_that_lie(void **state)
{
	static const uint32_t lengths[] = {0, (1 << 20) + 1, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		_cleanup_buf_ struct buf manifest = buf_init(MIB(1)), record = buf_init(MIB(1));

		assert_int_equal(buf_append(&manifest, "PSSNAP01", 8), 0);
		assert_int_equal(buf_append(&manifest, &lengths[i], 4), 0);
		assert_int_equal(buf_append(&manifest, FILES, strlen(FILES)), 0);
		assert_int_equal(read_plain(&manifest), -EBADMSG);
		put_start(&record, FILES);
		put_record(&record, 1, lengths[i], 0, "x", 1);
		assert_int_equal(read_plain(&record), -EBADMSG);
	}
}

/* A window that would take much memory to unpack. */
static void test_big_window(void **state)
{
	_cleanup_buf_ struct buf b = buf_init(MIB(1));
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	char packed[4096];
	ZSTD_outBuffer out = {.dst = packed, .size = sizeof(packed)};
	ZSTD_inBuffer in = {0};

	put_start(&b, FILES);
	put_end(&b);
	in.src = b.data;
	in.size = b.len;
	(void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, 27);
	assert_int_equal(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0);
	assert_int_equal(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_end), 0);
	(void)ZSTD_freeCCtx(zstd);
	assert_int_equal(read_all(packed, out.pos), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_round_trip),
		scratch_test(test_truncated_and_flipped),
		scratch_test(test_trailing),
		scratch_test(test_refusal),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_manifests),
		cmocka_unit_test(test_lengths_that_lie),
		cmocka_unit_test(test_big_window),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
