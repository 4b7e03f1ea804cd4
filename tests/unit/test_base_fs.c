/* SPDX-License-Identifier: Apache-2.0 */
/* Files: atomic writes, sparse copies, and removal that follows no links. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "scratch.h"

static size_t count_entries(const char *dir)
{
	_cleanup_free_ char *cmd = NULL;
	char text[32];
	FILE *p;

	assert_true(asprintf(&cmd, "ls -A '%s' | wc -l", dir) > 0);
	p = popen(cmd, "re");
	assert_non_null(p);
	assert_non_null(fgets(text, sizeof(text), p));
	assert_int_equal(pclose(p), 0);
	return strtoul(text, NULL, 10);
}

static void content_is(const char *path, const char *want)
{
	_cleanup_free_ char *data = NULL;
	size_t len;

	assert_int_equal(fs_read(path, 1 << 20, &data, &len, NULL), 0);
	assert_int_equal(len, strlen(want));
	assert_string_equal(data, want);
}

static void test_mkdirs(void **state)
{
	_cleanup_free_ char *deep = fs_join(*state, "a/b/c"), *file = fs_join(*state, "f");
	_cleanup_free_ char *below = fs_join(file, "sub"), *slashes = fs_join(*state, "x//y/");
	struct err err = {0};
	struct stat st;

	assert_int_equal(fs_mkdirs(deep, 0700, NULL), 0);
	assert_int_equal(fs_mkdirs(deep, 0700, NULL), 0);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fs_mkdirs(slashes, 0700, NULL), 0);
	scratch_write(*state, "f", "");
	assert_int_equal(fs_mkdirs(below, 0700, &err), -ENOTDIR);
	assert_non_null(strstr(err.msg, below));
	assert_true(fs_mkdirs("", 0700, NULL) < 0);
}

static void test_read(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "f"), *none = fs_join(*state, "none"),
			    *data = NULL;
	struct err err = {0};
	size_t len;

	scratch_write(*state, "f", "12345");
	assert_int_equal(fs_read(path, 5, &data, &len, NULL), 0);
	assert_int_equal(len, 5);
	assert_string_equal(data, "12345");
	free(steal_ptr(&data));
	assert_int_equal(fs_read(path, 4, &data, NULL, NULL), -EFBIG);
	assert_int_equal(fs_read(none, 5, &data, NULL, &err), -ENOENT);
	assert_int_equal(fs_read(*state, 5, &data, NULL, NULL), -EFBIG); /* a folder is no file */
	assert_null(data);
}

static void test_write_atomic(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "f"), *bad = fs_join(*state, "no/f");
	struct stat st;

	assert_int_equal(fs_write_atomic(path, "one", 3, 0600, NULL), 0);
	assert_int_equal(fs_write_atomic(path, "two", 3, 0640, NULL), 0);
	content_is(path, "two");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fs_write_atomic(bad, "x", 1, 0600, NULL), -ENOENT);
	assert_int_equal(count_entries(*state), 1);
}

/* A rename that fails leaves nothing behind. */
static void test_write_over_folder(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "d");

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(fs_write_atomic(path, "x", 1, 0600, NULL), -EISDIR);
	assert_int_equal(count_entries(*state), 1);
}

/* 64 MiB with data at two places: a copy has the same bytes, and takes as little room. */
static void make_sparse(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "begin", 5, 4096), 5);
	assert_int_equal(pwrite(fd, "middle", 6, 33 << 20), 6);
	assert_int_equal(ftruncate(fd, 64 << 20), 0);
}

static void same_sparse(const char *from, const char *to)
{
	_cleanup_close_ int fd = open(to, O_RDONLY | O_CLOEXEC);
	char data[6], zero[6] = {0};
	struct stat a, b;

	assert_int_equal(stat(from, &a), 0);
	assert_int_equal(fstat(fd, &b), 0);
	assert_int_equal(b.st_size, a.st_size);
	assert_true(b.st_blocks <= a.st_blocks + 128);
	assert_int_equal(pread(fd, data, 5, 4096), 5);
	assert_memory_equal(data, "begin", 5);
	assert_int_equal(pread(fd, data, 6, 33 << 20), 6);
	assert_memory_equal(data, "middle", 6);
	assert_int_equal(pread(fd, data, 6, 20 << 20), 6);
	assert_memory_equal(data, zero, 6);
}

static void test_clone(void **state)
{
	_cleanup_free_ char *from = fs_join(*state, "from"), *to = fs_join(*state, "to");
	_cleanup_free_ char *none = fs_join(*state, "none");
	struct err err = {0};
	struct stat st;

	make_sparse(from);
	assert_int_equal(fs_clone(from, to, 0640, &err), 0);
	same_sparse(from, to);
	assert_int_equal(stat(to, &st), 0);
	assert_int_equal(st.st_mode & 0700, 0600);
	assert_int_equal(fs_clone(from, to, 0600, &err), -EEXIST); /* never over another file */
	assert_int_equal(fs_clone(none, to, 0600, &err), -ENOENT);
}

/* Templates and sandboxes may lie on two file systems, where the kernel copies nothing for us. */
static void test_clone_across(void **state)
{
	_cleanup_free_ char *from = fs_join(*state, "from"), *to = NULL;
	struct err err = {0};

	if (access("/dev/shm", W_OK) < 0)
		skip();
	assert_true(asprintf(&to, "/dev/shm/pandastack-test.%d", (int)getpid()) > 0);
	make_sparse(from);
	if (fs_clone(from, to, 0600, &err) < 0)
		fail_msg("%s", err.msg);
	same_sparse(from, to);
	assert_int_equal(unlink(to), 0);
}

/* A program that has the file open sees what it became. */
static void test_clone_into(void **state)
{
	_cleanup_free_ char *from = fs_join(*state, "from"), *to = fs_join(*state, "to");
	_cleanup_free_ char *none = fs_join(*state, "none");
	_cleanup_close_ int fd = -1;
	struct err err = {0};
	struct stat before, after;

	make_sparse(from);
	scratch_write(*state, "to", "something else");
	fd = open(to, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(fs_clone_into(from, to, &err), 0);
	same_sparse(from, to);
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(after.st_nlink, 1);
	assert_int_equal(fs_clone_into(none, to, &err), -ENOENT);
	assert_int_equal(fs_clone_into(from, none, &err), -ENOENT);
}

static void test_clone_empty(void **state)
{
	_cleanup_free_ char *from = fs_join(*state, "from"), *to = fs_join(*state, "to");

	scratch_write(*state, "from", "");
	assert_int_equal(fs_clone(from, to, 0600, NULL), 0);
	content_is(to, "");
}

static void test_remove_tree(void **state)
{
	_cleanup_free_ char *kept = fs_join(*state, "kept"), *tree = fs_join(*state, "tree");
	_cleanup_free_ char *deep = fs_join(tree, "a/b"), *link = fs_join(tree, "link");
	_cleanup_free_ char *dangling = fs_join(deep, "dangling");

	assert_int_equal(fs_mkdirs(kept, 0700, NULL), 0);
	scratch_write(kept, "file", "x");
	assert_int_equal(fs_mkdirs(deep, 0700, NULL), 0);
	scratch_write(deep, "file", "x");
	assert_int_equal(symlink("../kept", link), 0);
	assert_int_equal(symlink("/no/such", dangling), 0);
	assert_int_equal(fs_remove_tree(tree, NULL), 0);
	assert_int_equal(access(tree, F_OK), -1);
	assert_int_equal(count_entries(kept), 1);
	assert_int_equal(fs_remove_tree(tree, NULL), 0); /* gone is fine */
}

/* More levels than a path has room for, or a thread's stack. */
static void test_remove_deep_tree(void **state)
{
	_cleanup_free_ char *tree = fs_join(*state, "tree");
	int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(mkdirat(fd, "tree", 0700), 0);
	for (int i = 0, next; i < 6000; i++) {
		next = openat(fd, i == 0 ? "tree" : "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		assert_int_equal(mkdirat(fd, "deeper-0", 0700), 0);
	}
	(void)close(fd);
	assert_true(fs_disk_usage(tree) > 0);
	assert_int_equal(fs_remove_tree(tree, NULL), 0);
	assert_int_equal(count_entries(*state), 0);
}

/* A link is removed, not what it leads to. */
static void test_remove_link(void **state)
{
	_cleanup_free_ char *kept = fs_join(*state, "kept"), *link = fs_join(*state, "link");

	assert_int_equal(fs_mkdirs(kept, 0700, NULL), 0);
	scratch_write(kept, "file", "x");
	assert_int_equal(symlink("kept", link), 0);
	assert_int_equal(fs_remove_tree(link, NULL), 0);
	assert_int_equal(count_entries(*state), 1);
	assert_int_equal(count_entries(kept), 1);
}

static void test_disk_usage(void **state)
{
	_cleanup_free_ char *none = fs_join(*state, "none"), *sparse = fs_join(*state, "s");
	_cleanup_buf_ struct buf text = buf_init(1 << 20);
	uint64_t before = fs_disk_usage(*state);

	while (text.len < 1 << 19)
		assert_int_equal(buf_append(&text, "0123456789abcdef", 16), 0);
	scratch_write(*state, "f", text.data);
	make_sparse(sparse);
	assert_in_range(fs_disk_usage(*state) - before, 1 << 19, 1 << 20);
	assert_int_equal(fs_disk_usage(none), 0);
}

/* What has another name elsewhere is not given back by a removal. */
static void test_own_usage(void **state)
{
	_cleanup_free_ char *dir = fs_join(*state, "d"), *file = fs_join(dir, "file");
	_cleanup_free_ char *other = fs_join(*state, "other");
	uint64_t all;

	assert_int_equal(fs_mkdirs(dir, 0755, NULL), 0);
	scratch_write(dir, "file", "some bytes");
	all = fs_own_usage(dir);
	assert_true(all == fs_disk_usage(dir));
	assert_int_equal(link(file, other), 0);
	assert_true(fs_own_usage(dir) < all);
	assert_true(fs_disk_usage(dir) == all);
	assert_true(fs_own_usage("/nonexistent") == 0);
}

static void test_sync(void **state)
{
	_cleanup_free_ char *gone = fs_join(*state, "gone"), *link = fs_join(*state, "link");
	struct err err = {0};

	scratch_write(*state, "file", "x");
	assert_int_equal(fs_sync_dir(*state, &err), 0);
	assert_int_equal(fs_sync_tree(*state, &err), 0);
	assert_int_equal(fs_sync_dir(gone, &err), -ENOENT);
	assert_int_equal(fs_sync_tree(gone, &err), -ENOENT);
	assert_int_equal(symlink("nowhere", link), 0); /* names are synced, whatever they are */
	assert_int_equal(fs_sync_dir(*state, &err), 0);
}

/* A program finds its own folder when it was replaced by another one, as an upgrade does. */
static void test_program_dir(void **state)
{
	_cleanup_free_ char *copy = fs_join(*state, "program"), *cmd = NULL;

	assert_int_equal(fs_clone("/proc/self/exe", copy, 0755, NULL), 0);
	assert_true(asprintf(&cmd, "'%s' --where", copy) > 0);
	assert_int_equal(system(cmd), 0);
}

/* What that copy does. */
static int where(const char *self)
{
	_cleanup_free_ char *dir = NULL, *file = NULL;
	bool ok = unlink(self) == 0;

	dir = fs_program_dir();
	file = dir ? fs_join(dir, "program") : NULL;
	return ok && file && strcmp(file, self) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_mkdirs),
		scratch_test(test_read),
		scratch_test(test_write_atomic),
		scratch_test(test_write_over_folder),
		scratch_test(test_clone),
		scratch_test(test_clone_across),
		scratch_test(test_clone_into),
		scratch_test(test_clone_empty),
		scratch_test(test_remove_tree),
		scratch_test(test_remove_deep_tree),
		scratch_test(test_remove_link),
		scratch_test(test_disk_usage),
		scratch_test(test_own_usage),
		scratch_test(test_sync),
		scratch_test(test_program_dir),
	};

	if (argc == 2 && strcmp(argv[1], "--where") == 0)
		return where(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
