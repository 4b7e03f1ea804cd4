/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of what was downloaded. */
#include "mirror/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/fs.h"
#include "base/str.h"

enum {
	KEPT_PERCENT = 90, /* of the bound, once it was exceeded */
	NAME_CHARS = 2 * crypto_hash_sha256_BYTES,
};

struct cache {
	int dir_fd; /* owned */
	uint64_t max_bytes;
	pthread_mutex_t lock; /* protects `bytes` */
	uint64_t bytes;       /* of all files, as far as this daemon knows */
};

struct found {
	char name[NAME_CHARS + 1];
	uint64_t bytes;
	struct timespec used;
};

static bool is_ours(const char *name)
{
	return strlen(name) == NAME_CHARS && strspn(name, "0123456789abcdef") == NAME_CHARS;
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct found *)a)->used;
	const struct timespec *y = &((const struct found *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* All of ours, to be freed. */
static struct found *list_files(int dir_fd, size_t *ret_n)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct found *all = NULL;
	const struct dirent *e;
	size_t n = 0, room = 0;

	while (dir && (e = readdir(dir))) {
		struct stat st;

		if (!is_ours(e->d_name) || fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n == room) {
			room = MAX(2 * room, (size_t)64);
			all = reallocarray(all, room, sizeof(*all));
			if (!all)
				abort();
		}
		memcpy(all[n].name, e->d_name, sizeof(all[n].name));
		all[n].bytes = (uint64_t)st.st_blocks * 512;
		all[n++].used = st.st_mtim;
	}
	if (dir)
		(void)closedir(dir);
	*ret_n = n;
	return all;
}

/* Removes a file that nobody has open; else its room would not be had back, and not be counted either. */
static bool remove_unused(int dir_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	return flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir_fd, name, 0) == 0;
}

/* Looks at what there is, and removes some where that is too much; `lock` is held. */
static void trim(struct cache *c)
{
	_cleanup_free_ struct found *all = NULL;
	size_t n;

	all = list_files(c->dir_fd, &n);
	c->bytes = 0;
	for (size_t i = 0; i < n; i++)
		c->bytes += all[i].bytes;
	if (c->bytes <= c->max_bytes)
		return;
	qsort(all, n, sizeof(*all), by_use);
	for (size_t i = 0; i < n && c->bytes > c->max_bytes / 100 * KEPT_PERCENT; i++) {
		if (remove_unused(c->dir_fd, all[i].name))
			c->bytes -= all[i].bytes;
	}
}

int cache_new(struct cache *c)
{
	int fd = openat(c->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int cache_open(const char *dir, uint64_t max_bytes, struct cache **ret, struct err *err)
{
	_cleanup_close_ int probe = -1;
	struct cache *c;
	int fd, r = fs_mkdirs(dir, 0700, err);

	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(err, -errno, "can't open the folder %s", dir);
	c = xnew(struct cache);
	*c = (struct cache){.dir_fd = fd, .max_bytes = max_bytes};
	(void)pthread_mutex_init(&c->lock, NULL); /* never fails on Linux */
	probe = cache_new(c);
	if (probe < 0) {
		cache_close(c);
		return err_set_errno(err, probe,
			"the package cache can't make files in %s (it needs a local disk: O_TMPFILE)",
			dir);
	}
	trim(c);
	*ret = c;
	return 0;
}

struct cache *cache_close(struct cache *c)
{
	if (!c)
		return NULL;
	pthread_mutex_destroy(&c->lock);
	cleanup_close(&c->dir_fd);
	free(c);
	return NULL;
}

static void name_of(const char *key, char dst[NAME_CHARS + 1])
{
	uint8_t hash[crypto_hash_sha256_BYTES];

	(void)crypto_hash_sha256(hash, (const uint8_t *)key, strlen(key)); /* never fails */
	str_hex(dst, hash, sizeof(hash));
}

/* One that no key has. */
static void random_name(char dst[NAME_CHARS + 1])
{
	uint8_t bytes[NAME_CHARS / 2];

	randombytes_buf(bytes, sizeof(bytes));
	str_hex(dst, bytes, sizeof(bytes));
}

int cache_get(struct cache *c, const char *key, bool use, struct stat *ret)
{
	_cleanup_close_ int fd = -1;
	char name[NAME_CHARS + 1];

	name_of(key, name);
	fd = openat(c->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) ||
		flock(fd, LOCK_SH | LOCK_NB) < 0) /* it is just being removed */
		return -ENOENT;
	if (use)
		(void)futimens(fd, NULL); /* else it goes too early */
	return steal_fd(&fd);
}

/* Counts a file that was added. Whether there is room for it. */
static bool add_bytes(struct cache *c, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&c->lock);
	c->bytes += bytes;
	if (c->bytes > c->max_bytes)
		trim(c);
	fits = c->bytes <= c->max_bytes;
	if (!fits)
		c->bytes -= bytes;
	pthread_mutex_unlock(&c->lock);
	return fits;
}

int cache_keep(struct cache *c, int fd, const char *key)
{
	char path[32], name[NAME_CHARS + 1], older[NAME_CHARS + 1];
	struct stat st;

	if (fdatasync(fd) < 0 || fstat(fd, &st) < 0 || flock(fd, LOCK_SH) < 0)
		return -errno;
	name_of(key, name);
	if (!remove_unused(c->dir_fd, name)) {
		/* An older one that somebody reads: it counts, under another name, until that has an end. */
		random_name(older);
		(void)renameat(c->dir_fd, name, c->dir_fd, older);
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, c->dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno; /* another daemon was faster, perhaps */
	if (add_bytes(c, (uint64_t)st.st_blocks * 512))
		return 0;
	(void)unlinkat(c->dir_fd, name, 0);
	return -ENOSPC;
}
