/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of what was downloaded: whole files only, and no more than there may be. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "mirror/cache.h"
#include "scratch.h"

static struct cache *open_cache(const char *dir, uint64_t max_bytes)
{
	_cleanup_free_ char *path = fs_join(dir, "cache");
	struct cache *c;
	struct err err;

	if (cache_open(path, max_bytes, &c, &err) < 0)
		fail_msg("%s", err_msg(&err));
	return c;
}

static void keep(struct cache *c, const char *key, const void *data, size_t len)
{
	_cleanup_close_ int fd = cache_new(c);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, data, len), 0);
	assert_int_equal(cache_keep(c, fd, key), 0);
}

/* Its first byte; or -1: it is not there. */
static int look(struct cache *c, const char *key, bool use)
{
	struct stat st;
	_cleanup_close_ int fd = cache_get(c, key, use, &st);
	char byte;

	if (fd < 0)
		return -1;
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(read(fd, &byte, 1), 1);
	return byte;
}

static int count(const char *dir)
{
	_cleanup_free_ char *path = fs_join(dir, "cache");
	DIR *d = opendir(path);
	int n = 0;

	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

static void test_keep_and_get(void **state)
{
	struct cache *c = open_cache(*state, MIB(1));
	struct stat st;

	assert_int_equal(cache_get(c, "a", true, &st), -ENOENT);
	keep(c, "a", "1", 1);
	keep(c, "../../b", "2", 1);
	assert_int_equal(look(c, "a", true), '1');
	keep(c, "a", "3", 1);
	assert_int_equal(look(c, "a", true), '3');
	assert_int_equal(look(c, "../../b", true), '2');
	assert_int_equal(count(*state), 2);
	cache_close(c);
	c = open_cache(*state, MIB(1));
	assert_int_equal(look(c, "a", true), '3');
	cache_close(c);
}

static void test_what_is_not_kept_leaves_nothing(void **state)
{
	struct cache *c = open_cache(*state, MIB(1));
	int fd = cache_new(c);

	assert_int_equal(fs_write_all(fd, "x", 1), 0);
	assert_int_equal(count(*state), 0);
	(void)close(fd);
	assert_int_equal(count(*state), 0);
	cache_close(c);
}

static void set_age(struct cache *c, const char *key, time_t when)
{
	const struct timespec times[] = {{.tv_sec = when}, {.tv_sec = when}};
	struct stat st;
	_cleanup_close_ int fd = cache_get(c, key, false, &st);

	assert_int_equal(futimens(fd, times), 0);
}

static void test_the_longest_unused_goes_first(void **state)
{
	_cleanup_free_ char *block = xcalloc(1, KIB(300)), *other = fs_join(*state, "cache/notes");
	struct cache *c = open_cache(*state, MIB(1));
	int fd = open(other, O_CREAT | O_WRONLY, 0600);

	assert_int_equal(fs_write_all(fd, block, KIB(300)), 0);
	(void)close(fd);
	keep(c, "a", block, KIB(300));
	keep(c, "b", block, KIB(300));
	keep(c, "c", block, KIB(300));
	set_age(c, "a", 1);
	set_age(c, "b", 2);
	set_age(c, "c", 3);
	assert_int_equal(look(c, "a", true), 0);  /* it is the youngest now */
	assert_int_equal(look(c, "b", false), 0); /* this does not count as use */
	keep(c, "d", block, KIB(300));
	assert_int_equal(look(c, "a", false), 0);
	assert_int_equal(look(c, "b", false), -1);
	assert_int_equal(look(c, "c", false), 0);
	assert_int_equal(look(c, "d", false), 0);
	/* What is not ours stays. */
	assert_int_equal(access(other, F_OK), 0);
	cache_close(c);
	/* The bound may be another when it is opened. */
	c = open_cache(*state, KIB(400));
	assert_int_equal(count(*state), 2);
	cache_close(c);
}

static void test_what_is_in_use_stays(void **state)
{
	_cleanup_free_ char *block = xcalloc(1, KIB(600));
	struct cache *c = open_cache(*state, MIB(1));
	struct stat st;
	int used, other = cache_new(c), third = cache_new(c);

	keep(c, "a", block, KIB(600));
	set_age(c, "a", 1);
	used = cache_get(c, "a", false, &st);
	/* Its room is taken, so there is none for this. */
	assert_int_equal(fs_write_all(other, block, KIB(600)), 0);
	assert_int_equal(cache_keep(c, other, "b"), -ENOSPC);
	assert_int_equal(count(*state), 1);
	/* A newer one takes its name, and it still counts. */
	keep(c, "a", "new", 3);
	assert_int_equal(look(c, "a", false), 'n');
	assert_int_equal(count(*state), 2);
	assert_int_equal(fs_write_all(third, block, KIB(600)), 0);
	assert_int_equal(cache_keep(c, third, "b"), -ENOSPC);
	(void)close(used);
	keep(c, "b", block, KIB(600));
	assert_int_equal(look(c, "b", false), 0);
	(void)close(other);
	(void)close(third);
	cache_close(c);
}

static void test_folders_that_do_not_do(void **state)
{
	struct cache *c;
	struct err err;

	scratch_write(*state, "file", "");
	assert_true(cache_open("/proc/cache", MIB(1), &c, &err) < 0);
	assert_non_null(strstr(err_msg(&err), "/proc/cache"));
	assert_true(cache_open("/proc", MIB(1), &c, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_keep_and_get),
		scratch_test(test_what_is_not_kept_leaves_nothing),
		scratch_test(test_the_longest_unused_goes_first),
		scratch_test(test_what_is_in_use_stays),
		scratch_test(test_folders_that_do_not_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
