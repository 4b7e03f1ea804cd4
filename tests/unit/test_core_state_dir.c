/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of captured machines: hashes that don't depend on holes, copies, memory that others share. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "core/state_dir.h"
#include "engine/memory_delta.h"
#include "scratch.h"

enum { BYTES = 1 << 20 };

/* `data` at `at` of a file of BYTES; the rest is zeros: holes, or written. */
static void put(const char *dir, const char *name, off_t at, const char *data, bool sparse)
{
	_cleanup_free_ char *path = fs_join(dir, name), *zeros = xcalloc(1, BYTES);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t len = (ssize_t)strlen(data);

	if (sparse)
		assert_int_equal(ftruncate(fd, BYTES), 0);
	else
		assert_int_equal(write(fd, zeros, BYTES), BYTES);
	assert_int_equal(pwrite(fd, data, (size_t)len, at), len);
}

static char *make_dir(const char *parent, const char *name)
{
	char *dir = fs_join(parent, name);

	assert_int_equal(fs_mkdirs(dir, 0700, NULL), 0);
	return dir;
}

static void same_hash(const char *a, const char *b, bool same)
{
	char one[STATE_HASH_SIZE], other[STATE_HASH_SIZE];

	assert_int_equal(state_hash(a, one, NULL), 0);
	assert_int_equal(state_hash(b, other, NULL), 0);
	assert_int_equal(strcmp(one, other) == 0, same);
}

static void test_hash_of_holes(void **state)
{
	_cleanup_free_ char *a = make_dir(*state, "a"), *b = make_dir(*state, "b");

	put(a, "devices", 0, "dev", false);
	put(b, "devices", 0, "dev", true);
	put(a, "scratch.ext4", 70000, "disk", false);
	put(b, "scratch.ext4", 70000, "disk", true);
	same_hash(a, b, true);
	put(a, "memory", BYTES - 4, "page", false);
	same_hash(a, b, false); /* that it is there counts */
	put(b, "memory", BYTES - 4, "page", true);
	same_hash(a, b, true);
}

static void test_hash_of_changes(void **state)
{
	_cleanup_free_ char *a = make_dir(*state, "a"), *b = make_dir(*state, "b");
	_cleanup_free_ char *disk = fs_join(b, "scratch.ext4");
	struct err err = {0};
	char hash[STATE_HASH_SIZE];

	put(a, "devices", 0, "dev", true);
	put(b, "devices", 0, "dev", true);
	put(a, "scratch.ext4", 0, "disk", true);
	put(b, "scratch.ext4", 65536, "disk", true); /* elsewhere */
	same_hash(a, b, false);
	put(b, "scratch.ext4", 0, "disl", true);
	same_hash(a, b, false);
	put(b, "scratch.ext4", 0, "disk", true);
	same_hash(a, b, true);
	assert_int_equal(truncate(disk, BYTES + 65536), 0); /* longer by zeros */
	same_hash(a, b, false);
	assert_int_equal(unlink(disk), 0);
	assert_int_equal(state_hash(b, hash, &err), -ENOENT);
}

/* A delta of one page for a memory of BYTES, written by hand as memory_delta.h has it; not sealed. */
static void put_delta(const char *dir)
{
	_cleanup_free_ char *path = fs_join(dir, "delta"), *file = xcalloc(2, 4096);
	const uint64_t numbers[] = {BYTES, 1, 1}, extent[] = {2, 1};

	(void)snprintf(file, 4096, "PSDELTA2");
	memcpy(file + 8, numbers, sizeof(numbers));
	memcpy(file + 72, extent, sizeof(extent));
	(void)snprintf(file + 4096, 4096, "new");
	assert_int_equal(fs_write_atomic(path, file, 8192, 0600, NULL), 0);
}

static void holds(const char *dir, const char *name, off_t at, const char *want)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char got[8] = "";

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, got, strlen(want), at), strlen(want));
	assert_string_equal(got, want);
}

/* What is in it counts elsewhere; but one that was lost is missed. */
static void test_hash_of_the_delta(void **state)
{
	_cleanup_free_ char *a = make_dir(*state, "a"), *b = make_dir(*state, "b");

	for (size_t i = 0; i < 2; i++) {
		put(i ? b : a, "devices", 0, "dev", true);
		put(i ? b : a, "scratch.ext4", 0, "disk", true);
		put(i ? b : a, "memory", 0, "page", true);
	}
	same_hash(a, b, true);
	put_delta(a);
	same_hash(a, b, false);
	scratch_write(b, "delta", "");
	same_hash(a, b, true);
}

static void test_flatten(void **state)
{
	_cleanup_free_ char *dir = make_dir(*state, "d"), *base = fs_join(*state, "base");
	_cleanup_free_ char *delta = fs_join(dir, "delta");

	put(*state, "base", 100, "old", true);
	put_delta(dir);
	assert_int_equal(state_flatten(dir, base, BYTES, NULL), 0);
	assert_int_equal(access(delta, F_OK), -1);
	holds(dir, "memory", 100, "old");
	holds(dir, "memory", 8192, "new");
	holds(*state, "base", 8192, (char[4]){0});
}

/* Other machines stand on the same memory by a hard link: it stays as it is. */
static void test_flatten_shared(void **state)
{
	_cleanup_free_ char *dir = make_dir(*state, "d"), *other = fs_join(*state, "other");
	_cleanup_free_ char *memory = fs_join(dir, "memory");
	struct stat before, after;

	put(dir, "memory", 8192, "old", true);
	assert_int_equal(link(memory, other), 0);
	assert_int_equal(stat(other, &before), 0);
	put_delta(dir);
	assert_int_equal(state_flatten(dir, "/nonexistent", BYTES, NULL), 0);
	holds(dir, "memory", 8192, "new");
	holds(*state, "other", 8192, "old");
	assert_int_equal(stat(other, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(after.st_nlink, 1);
}

static void test_flatten_damaged(void **state)
{
	_cleanup_free_ char *dir = make_dir(*state, "d"), *base = fs_join(*state, "base");
	_cleanup_free_ char *delta = fs_join(dir, "delta"), *work = fs_join(dir, "memory.new");
	struct err err = {0};

	put(*state, "base", 100, "old", true);
	scratch_write(dir, "delta", "PSDELTA2 and no more");
	assert_int_equal(state_flatten(dir, base, BYTES, &err), -EBADMSG);
	assert_int_equal(err.kind, ERR_SNAPSHOT_DAMAGED);
	assert_int_equal(access(delta, F_OK), 0);
	assert_int_equal(access(work, F_OK), -1);
}

static void test_seal(void **state)
{
	_cleanup_free_ char *dir = make_dir(*state, "d"), *delta = fs_join(dir, "delta");
	_cleanup_close_ int fd = -1;
	struct err err = {0};
	uint64_t bytes;

	put(dir, "devices", 0, "dev", true);
	put(dir, "scratch.ext4", 5, "disk", true);
	put(dir, "memory", 9, "page", true);
	put_delta(dir);
	assert_int_equal(state_check(dir, NULL, &err), -ENOENT);
	assert_int_equal(state_seal(dir, NULL), 0);
	assert_int_equal(state_check(dir, NULL, NULL), 0);
	put(dir, "scratch.ext4", 5, "diSk", true);
	assert_int_equal(state_check(dir, NULL, &err), -EBADMSG);
	assert_int_equal(err.kind, ERR_SNAPSHOT_DAMAGED);
	put(dir, "scratch.ext4", 5, "disk", true);
	assert_int_equal(unlink(delta), 0);
	assert_int_equal(state_check(dir, NULL, &err), -EBADMSG);
	assert_int_equal(err.kind, ERR_SNAPSHOT_DAMAGED);
	put_delta(dir);
	assert_int_equal(state_check(dir, NULL, NULL), -EBADMSG); /* it has no hash */
	assert_int_equal(delta_seal(delta, false, NULL), 0);
	assert_int_equal(state_check(dir, &bytes, NULL), 0);
	assert_int_equal(bytes, 4096);
	fd = open(delta, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "N", 1, 4096), 1);
	assert_int_equal(state_check(dir, NULL, &err), -EBADMSG);
	assert_int_equal(err.kind, ERR_SNAPSHOT_DAMAGED);
	assert_int_equal(pwrite(fd, "n", 1, 4096), 1);
	assert_int_equal(state_check(dir, NULL, NULL), 0);
	put(dir, "hash", 0, "0", true);
	assert_int_equal(state_check(dir, NULL, NULL) < 0, 1);
}

static void test_clone(void **state)
{
	_cleanup_free_ char *a = make_dir(*state, "a"), *b = make_dir(*state, "b");
	_cleanup_free_ char *delta = fs_join(b, "delta"), *memory = fs_join(b, "memory");
	struct stat st;

	put(a, "devices", 0, "dev", true);
	put(a, "scratch.ext4", 5, "disk", true);
	put(a, "memory", 9, "page", true);
	assert_int_equal(state_clone(a, b, NULL), 0);
	same_hash(a, b, true);
	assert_int_equal(access(delta, F_OK), -1); /* not every state has one */
	assert_int_equal(stat(memory, &st), 0);
	assert_int_equal(st.st_nlink, 2);
	put(b, "scratch.ext4", 5, "mine", true);
	holds(a, "scratch.ext4", 5, "disk");
	assert_int_equal(state_clone(a, b, NULL), -EEXIST); /* only into an empty one */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_hash_of_holes),
		scratch_test(test_hash_of_changes),
		scratch_test(test_hash_of_the_delta),
		scratch_test(test_flatten),
		scratch_test(test_flatten_shared),
		scratch_test(test_flatten_damaged),
		scratch_test(test_seal),
		scratch_test(test_clone),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
