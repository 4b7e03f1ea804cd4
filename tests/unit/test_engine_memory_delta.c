/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a process: saved, put into another process and into a file; and every kind of damage to what was saved. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zstd.h>

#include "engine/memory_delta.h"
#include "scratch.h"

enum {
	PAGE = 4096,
	PAGES = 64,
	BYTES = PAGES * PAGE,
	/* Of the file: the header, and in it the hash; the extents of write_some(). */
	HEADER = 72,
	PACKED_AT = 32,
	HASH_AT = 40,
	EXTENTS = 3,
	DATA_AT = PAGE,
};

/* Which pages write_some() writes: at the beginning, a run, at the end. */
static const int written[] = {0, 7, 8, 9, PAGES - 1};

static char *base_path(const char *dir)
{
	return fs_join(dir, "memory");
}

static void make_base(const char *dir)
{
	_cleanup_free_ char *path = base_path(dir);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char page[PAGE];

	for (int i = 0; i < PAGES; i++) {
		memset(page, i, sizeof(page));
		assert_int_equal(write(fd, page, PAGE), PAGE);
	}
}

static void write_some(char *memory)
{
	for (size_t i = 0; i < ARRAY_SIZE(written); i++)
		memset(memory + (size_t)written[i] * PAGE, 0x80 + (int)i, PAGE);
}

/* A process that maps the file as a machine does, and waits. */
static pid_t start_process(const char *dir, bool writes, struct guest_memory *ret)
{
	_cleanup_free_ char *path = base_path(dir);
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		volatile char sum = 0;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fd < 0 || memory == MAP_FAILED)
			_exit(1);
		for (int i = 0; i < PAGES; i++) /* pages that were only read are no difference */
			sum = (char)(sum + memory[i * PAGE]);
		if (writes)
			write_some(memory);
		(void)!write(ready[1], "x", 1);
		for (;;)
			(void)pause();
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	assert_int_equal(guest_memory_find(pid, BYTES, ret), 0);
	return pid;
}

static void end_process(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A delta of `written`; its path is to be freed. */
static char *save(const char *dir)
{
	char *path = fs_join(dir, "delta");
	struct guest_memory memory;
	struct err err = {0};
	uint64_t bytes = 0;
	pid_t pid;

	make_base(dir);
	pid = start_process(dir, true, &memory);
	if (delta_save(&memory, NULL, path, &bytes, &err) < 0)
		fail_msg("%s", err.msg);
	end_process(pid);
	assert_int_equal(bytes, ARRAY_SIZE(written) * PAGE);
	return path;
}

static void check_page(const char *page, int i)
{
	int want = i;

	for (size_t k = 0; k < ARRAY_SIZE(written); k++) {
		if (written[k] == i)
			want = 0x80 + (int)k;
	}
	for (int b = 0; b < PAGE; b++)
		assert_int_equal((unsigned char)page[b], want);
}

/* Applies it to a copy of the base, once it is checked (or as it is). */
static int apply(const char *dir, bool check, struct err *err)
{
	_cleanup_free_ char *base = base_path(dir), *copy = fs_join(dir, "copy");
	_cleanup_free_ char *delta = fs_join(dir, "delta");
	int r;

	(void)unlink(copy);
	assert_int_equal(fs_clone(base, copy, 0600, NULL), 0);
	r = check ? delta_check(delta, NULL, err) : 0;
	return r == 0 ? delta_apply(delta, copy, BYTES, err) : r;
}

static void check_copy(const char *dir)
{
	_cleanup_free_ char *copy = fs_join(dir, "copy"), *data = NULL;
	size_t len;

	assert_int_equal(fs_read(copy, BYTES, &data, &len, NULL), 0);
	assert_int_equal(len, BYTES);
	for (int i = 0; i < PAGES; i++)
		check_page(data + (size_t)i * PAGE, i);
}

static void test_apply(void **state)
{
	_cleanup_free_ char *delta = save(*state);
	struct err err = {0};

	assert_int_equal(apply(*state, false, &err), 0);
	check_copy(*state);
	assert_int_equal(apply(*state, true, &err), -EBADMSG); /* it has no hash yet */
	assert_int_equal(err.kind, ERR_SNAPSHOT_DAMAGED);
	assert_int_equal(delta_seal(delta, false, &err), 0);
	assert_int_equal(apply(*state, true, &err), 0);
	check_copy(*state);
	assert_int_equal(delta_seal(delta, false, &err), 0); /* once more is a check */
}

static off_t length(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* Before or after it was sealed as it is; and then nothing makes it anything else. */
static void test_compress(void **state)
{
	_cleanup_free_ char *delta = save(*state), *again = fs_join(*state, "again");
	off_t len = length(delta), packed;
	struct err err = {0};

	assert_int_equal(fs_clone(delta, again, 0600, NULL), 0);
	assert_int_equal(delta_seal(delta, true, &err), 0);
	packed = length(delta);
	assert_true(packed < len);
	assert_int_equal(apply(*state, true, &err), 0);
	check_copy(*state);
	assert_int_equal(delta_seal(delta, true, &err), 0);
	assert_int_equal(delta_seal(delta, false, &err), 0);
	assert_int_equal(length(delta), packed);

	assert_int_equal(rename(again, delta), 0);
	assert_int_equal(delta_seal(delta, false, &err), 0);
	assert_int_equal(length(delta), len);
	assert_int_equal(delta_seal(delta, true, &err), 0);
	assert_int_equal(length(delta), packed);
	assert_int_equal(apply(*state, true, &err), 0);
	check_copy(*state);
}

static void load(const char *dir, bool compress)
{
	_cleanup_free_ char *delta = save(dir), *again = fs_join(dir, "again");
	struct guest_memory memory;
	struct err err = {0};
	uint64_t bytes;
	pid_t pid = start_process(dir, false, &memory);

	assert_int_equal(delta_seal(delta, compress, &err), 0);
	if (delta_load(delta, &memory, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(delta_save(&memory, NULL, again, &bytes, &err), 0);
	end_process(pid);
	assert_int_equal(bytes, ARRAY_SIZE(written) * PAGE);
	assert_int_equal(rename(again, delta), 0);
	assert_int_equal(apply(dir, false, &err), 0);
	check_copy(dir);
}

static void test_load(void **state)
{
	load(*state, false);
}

static void test_load_compressed(void **state)
{
	load(*state, true);
}

static void test_nothing_written(void **state)
{
	_cleanup_free_ char *delta = fs_join(*state, "delta");
	struct guest_memory memory;
	struct err err = {0};
	uint64_t bytes = 1;
	pid_t pid;

	make_base(*state);
	pid = start_process(*state, false, &memory);
	assert_int_equal(delta_save(&memory, NULL, delta, &bytes, &err), 0);
	end_process(pid);
	assert_int_equal(bytes, 0);
	assert_int_equal(delta_seal(delta, false, &err), 0);
	assert_int_equal(apply(*state, true, &err), 0);
	assert_int_equal(delta_seal(delta, true, &err), 0);
	assert_int_equal(apply(*state, true, &err), 0);
}

/* More than is copied at once; the first half does not compress. */
static void test_many_pages(void **state)
{
	enum { MANY = 1024, FIRST = 5 };
	const uint64_t numbers[] = {MANY * PAGE, 2, MANY - 10, 0},
		       extents[] = {FIRST, 700, 710, 314};
	const size_t first_bytes = 700 * PAGE, len = DATA_AT + (MANY - 10) * (size_t)PAGE;
	_cleanup_free_ char *delta = fs_join(*state, "delta"), *base = base_path(*state);
	_cleanup_free_ char *file = xcalloc(1, len), *memory = NULL;
	const char *data = file + DATA_AT;
	struct err err = {0};
	size_t n;

	(void)snprintf(file, len, "PSDELTA2");
	memcpy(file + 8, numbers, sizeof(numbers));
	memcpy(file + HEADER, extents, sizeof(extents));
	randombytes_buf(file + DATA_AT, (len - DATA_AT) / 2);
	assert_int_equal(fs_write_atomic(delta, file, len, 0600, NULL), 0);
	assert_int_equal(delta_seal(delta, true, &err), 0);
	assert_in_range(length(delta), len / 2, len * 2 / 3);
	scratch_write(*state, "memory", "");
	assert_int_equal(truncate(base, MANY * PAGE), 0);
	assert_int_equal(delta_apply(delta, base, MANY * PAGE, &err), 0);
	assert_int_equal(fs_read(base, MANY * PAGE, &memory, &n, NULL), 0);
	assert_int_equal(n, MANY * PAGE);
	assert_memory_equal(memory + FIRST * PAGE, data, first_bytes);
	assert_memory_equal(memory + 710 * PAGE, data + first_bytes, 314 * PAGE);
}

/* Only what differs from another memory is written: nothing from one that has it all, one page from one that has not. */
static void test_against_another_memory(void **state)
{
	_cleanup_free_ char *first = save(*state), *copy = fs_join(*state, "copy");
	_cleanup_free_ char *delta = fs_join(*state, "against");
	_cleanup_close_ int fd = -1;
	struct guest_memory memory;
	struct err err = {0};
	uint64_t bytes;
	pid_t pid = start_process(*state, true, &memory);

	assert_int_equal(apply(*state, false, &err), 0);
	assert_int_equal(delta_save(&memory, copy, delta, &bytes, &err), 0);
	assert_int_equal(bytes, 0);
	fd = open(copy, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "?", 1, (off_t)written[2] * PAGE + 5), 1);
	assert_int_equal(unlink(delta), 0);
	assert_int_equal(delta_save(&memory, copy, delta, &bytes, &err), 0);
	assert_int_equal(bytes, PAGE);
	assert_int_equal(delta_apply(delta, copy, BYTES, &err), 0);
	check_copy(*state);
	assert_int_equal(truncate(copy, BYTES - PAGE), 0);
	assert_int_equal(unlink(delta), 0);
	assert_int_equal(delta_save(&memory, copy, delta, &bytes, &err), -EINVAL);
	end_process(pid);
}

static void test_no_process(void **state)
{
	_cleanup_free_ char *delta = fs_join(*state, "delta");
	struct guest_memory memory;
	struct err err = {0};
	uint64_t bytes;
	pid_t pid;

	make_base(*state);
	pid = start_process(*state, true, &memory);
	assert_int_equal(guest_memory_find(pid, 3 * PAGE, &memory), -ENOENT);
	assert_int_equal(kill(pid, SIGKILL), 0);
	/* A zombie: it has ended and is not reaped. */
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	assert_true(delta_save(&memory, NULL, delta, &bytes, &err) < 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(guest_memory_find(pid, BYTES, &memory), -ENOENT);
	assert_true(
		delta_save(&memory, NULL, delta, &bytes, &err) < 0); /* also: the file is there */
}

/* ---- damage ---- */

struct file {
	char *data; /* owned */
	size_t len;
};

static struct file load_sealed(const char *dir, bool compress)
{
	_cleanup_free_ char *delta = save(dir);
	struct file f;

	assert_int_equal(delta_seal(delta, compress, NULL), 0);
	assert_int_equal(fs_read(delta, 2 * BYTES, &f.data, &f.len, NULL), 0);
	if (!compress)
		assert_int_equal(f.len, DATA_AT + ARRAY_SIZE(written) * PAGE);
	return f;
}

static void put_delta(const char *dir, const void *data, size_t len)
{
	_cleanup_free_ char *delta = fs_join(dir, "delta");

	assert_int_equal(fs_write_atomic(delta, data, len, 0600, NULL), 0);
}

static void refused(const char *dir, const char *what)
{
	_cleanup_free_ char *delta = fs_join(dir, "delta"), *work = fs_join(dir, "delta.packed");
	struct err err = {0};

	if (apply(dir, true, &err) != -EBADMSG || err.kind != ERR_SNAPSHOT_DAMAGED)
		fail_msg("accepted: %s (%s)", what, err.msg);
	/* Nor does sealing it once more make it good. */
	for (int compress = 0; compress <= 1; compress++) {
		(void)delta_seal(delta, compress, NULL);
		if (apply(dir, true, &err) != -EBADMSG)
			fail_msg("laundered: %s", what);
	}
	assert_int_equal(access(work, F_OK), -1);
}

/* A flipped bit anywhere. */
static void flipped_bits(const char *dir, bool compress)
{
	struct file f = load_sealed(dir, compress);
	size_t meta = HEADER + EXTENTS * 16;
	char what[48];

	for (size_t i = 0; i < f.len;
		i += i < meta || (compress && i >= DATA_AT) ? 1 : MIN((size_t)509, f.len - i)) {
		f.data[i] = (char)(f.data[i] ^ 0x10);
		put_delta(dir, f.data, f.len);
		(void)snprintf(what, sizeof(what), "bit of byte %zu", i);
		refused(dir, what);
		f.data[i] = (char)(f.data[i] ^ 0x10);
	}
	free(f.data);
}

static void test_flipped_bits(void **state)
{
	flipped_bits(*state, false);
}

static void test_flipped_bits_compressed(void **state)
{
	flipped_bits(*state, true);
}

static void lengths(const char *dir, bool compress)
{
	static const size_t shorter[] = {0, 1, HEADER - 1, HEADER, HEADER + 16, DATA_AT,
		DATA_AT + 1};
	struct file f = load_sealed(dir, compress);

	for (size_t i = 0; i < ARRAY_SIZE(shorter); i++) {
		put_delta(dir, f.data, shorter[i]);
		refused(dir, "truncated");
	}
	put_delta(dir, f.data, f.len - 1);
	refused(dir, "one byte less");
	f.data = realloc(f.data, f.len + 1);
	f.data[f.len] = 0;
	put_delta(dir, f.data, f.len + 1);
	refused(dir, "one byte more");
	free(f.data);
}

static void test_lengths(void **state)
{
	lengths(*state, false);
}

static void test_lengths_compressed(void **state)
{
	lengths(*state, true);
}

/* What the extents may not be, in a file that has no hash to tell. */
static void test_extents(void **state)
{
	static const struct {
		const char *what;
		uint64_t extents[EXTENTS][2];
	} cases[] = {
		{"overlap", {{0, 1}, {0, 3}, {63, 1}}},
		{"out of order", {{7, 3}, {0, 1}, {63, 1}}},
		{"empty", {{0, 0}, {7, 4}, {63, 1}}},
		{"outside", {{0, 1}, {7, 3}, {64, 1}}},
		{"over the end", {{0, 1}, {7, 2}, {63, 2}}},
		{"overflow of the length", {{0, 1}, {7, 3}, {63, UINT64_MAX}}},
		{"overflow of the sum", {{0, UINT64_MAX}, {7, 5}, {63, 1}}},
		{"overflow of the end", {{0, 1}, {UINT64_MAX, 3}, {63, 1}}},
		{"more than there are", {{0, 2}, {7, 3}, {63, 1}}},
		{"fewer than there are", {{0, 1}, {7, 2}, {63, 1}}},
	};
	struct file f = load_sealed(*state, false);
	struct err err = {0};

	memset(f.data + HASH_AT, 0, 32);
	put_delta(*state, f.data, f.len);
	assert_int_equal(apply(*state, false, &err), 0); /* as it is */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memcpy(f.data + HEADER, cases[i].extents, sizeof(cases[i].extents));
		put_delta(*state, f.data, f.len);
		if (apply(*state, false, &err) != -EBADMSG)
			fail_msg("accepted: %s", cases[i].what);
	}
	free(f.data);
}

/* Numbers of the header, each alone, that would ask for much or wrap around. */
static void test_header(void **state)
{
	static const uint64_t evil[] = {0, 1, BYTES + 1, 1ULL << 22, (1ULL << 22) + 1, 1ULL << 32,
		1ULL << 60, INT64_MAX, UINT64_MAX};
	struct file f = load_sealed(*state, false);
	char keep[8];

	for (size_t at = 8; at < HASH_AT; at += 8) {
		memcpy(keep, f.data + at, 8);
		for (size_t i = 0; i < ARRAY_SIZE(evil); i++) {
			if (memcmp(keep, &evil[i], 8) == 0)
				continue;
			memcpy(f.data + at, &evil[i], 8);
			put_delta(*state, f.data, f.len);
			refused(*state, "an evil number");
		}
		memcpy(f.data + at, keep, 8);
	}
	free(f.data);
}

/* A frame of the pages, of `len` bytes or with as much more as zeros. */
static size_t frame_of(const struct file *pages, size_t len, int window_log, void *ret, size_t max)
{
	_cleanup_free_ char *data = xcalloc(1, pages->len + PAGE);
	ZSTD_inBuffer in = {.src = data, .size = len};
	ZSTD_outBuffer out = {.dst = ret, .size = max};
	ZSTD_CCtx *zstd = ZSTD_createCCtx();

	memcpy(data, pages->data + DATA_AT, pages->len - DATA_AT);
	assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window_log)));
	/* Two steps: so its header has a window and no length. */
	assert_false(ZSTD_isError(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush)));
	assert_int_equal(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_end), 0);
	(void)ZSTD_freeCCtx(zstd);
	return out.pos;
}

/* What a frame may not be, in a file that has no hash to tell. */
static void test_frames(void **state)
{
	enum { MAX = 64 << 10, ALL = ARRAY_SIZE(written) * PAGE };
	static const char skip[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd'};
	static const struct {
		const char *what;
		size_t before; /* of `skip` */
		size_t pages_bytes, twice, after;
		int window_log;
		int want;
	} cases[] = {
		{"as it is", 0, ALL, 0, 0, 19, 0},
		{"a byte less", 0, ALL - 1, 0, 0, 19, -EBADMSG},
		{"a byte more", 0, ALL + 1, 0, 0, 19, -EBADMSG},
		{"a page more", 0, ALL + PAGE, 0, 0, 19, -EBADMSG},
		{"nothing", 0, 0, 0, 0, 19, -EBADMSG},
		{"two frames", 0, ALL, 1, 0, 19, -EBADMSG},
		{"something behind it", 0, ALL, 0, 1, 19, -EBADMSG},
		{"something to skip behind it", 0, ALL, 0, sizeof(skip), 19, -EBADMSG},
		{"something to skip before it", sizeof(skip), ALL, 0, 0, 19, -EBADMSG},
		{"no frame", 4, ALL, 0, 0, 19, -EBADMSG},
		{"a wide window", 0, ALL, 0, 0, 20, -EBADMSG},
		{"a very wide window", 0, ALL, 0, 0, 31, -EBADMSG},
	};
	struct file f = load_sealed(*state, false);
	_cleanup_free_ char *file = xcalloc(1, MAX);
	const uint64_t packed = 1;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t len = DATA_AT;

		memcpy(file, f.data, DATA_AT);
		memcpy(file + PACKED_AT, &packed, sizeof(packed));
		memset(file + HASH_AT, 0, 32);
		memcpy(file + len, skip, cases[i].before);
		len += cases[i].before;
		for (size_t n = 0; n <= cases[i].twice; n++)
			len += frame_of(&f, cases[i].pages_bytes, cases[i].window_log, file + len,
				MAX - len);
		memcpy(file + len, skip, cases[i].after);
		put_delta(*state, file, len + cases[i].after);
		if (apply(*state, false, &err) != cases[i].want)
			fail_msg("%s: %s", cases[i].what, err.msg);
		if (cases[i].want == 0)
			check_copy(*state);
	}
	free(f.data);
}

static void test_other_memory(void **state)
{
	_cleanup_free_ char *delta = save(*state), *base = base_path(*state);
	struct err err = {0};

	assert_int_equal(delta_apply(delta, base, BYTES / 2, &err), -EBADMSG);
	assert_int_equal(delta_apply(delta, base, 2 * BYTES, &err), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_apply),
		scratch_test(test_compress),
		scratch_test(test_load),
		scratch_test(test_load_compressed),
		scratch_test(test_nothing_written),
		scratch_test(test_against_another_memory),
		scratch_test(test_many_pages),
		scratch_test(test_no_process),
		scratch_test(test_flipped_bits),
		scratch_test(test_flipped_bits_compressed),
		scratch_test(test_lengths),
		scratch_test(test_lengths_compressed),
		scratch_test(test_extents),
		scratch_test(test_header),
		scratch_test(test_frames),
		scratch_test(test_other_memory),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
