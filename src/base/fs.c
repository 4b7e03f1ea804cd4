/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders of our own: made, written atomically, copied sparsely, removed whole. */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

char *fs_join(const char *dir, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		abort();
	return path;
}

char *fs_program_dir(void)
{
	char path[PATH_MAX];
	/* Not realpath(3): it may be another one that lies there by now, after an upgrade. */
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n < 0)
		return NULL;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	return xstrdup(path);
}

char *fs_find_own(const char *beside, const char *installed)
{
	_cleanup_free_ char *dir = fs_program_dir();
	_cleanup_free_ char *path = dir ? fs_join(dir, beside) : NULL;

	return xstrdup(path && access(path, R_OK) == 0 ? path : installed);
}

int fs_mkdirs(const char *path, mode_t mode, struct err *err)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		abort();
	for (char *p = copy + (copy[0] == '/');; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			return err_set_errno(err, -errno, "can't make the folder %s", copy);
		*p = c;
		if (c == '\0')
			return 0;
	}
}

int fs_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	_cleanup_free_ char *data = NULL;
	struct stat st;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set_errno(err, -errno, "can't read %s", path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
		return err_set(err, ERR_INTERNAL, -EFBIG, "%s is not a file of at most %zu bytes",
			path, max);
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return err_set_errno(err, -ENOMEM, "can't read %s", path);
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, data + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, -errno, "can't read %s", path);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	data[len] = '\0';
	*ret = steal_ptr(&data);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int fs_write_all(int fd, const void *data, size_t len)
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

int fs_pwrite_all(int fd, const void *data, size_t len, off_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data = (const char *)data + n;
		offset += n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_pread_all(int fd, void *data, size_t len, off_t offset)
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

static int write_and_sync(int fd, const char *data, size_t len)
{
	int r = fs_write_all(fd, data, len);

	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
	_cleanup_free_ char *tmp = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&tmp, "%s.XXXXXX", path) < 0)
		abort();
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(err, -errno, "can't write %s", path);
	r = write_and_sync(fd, data, len);
	if (r == 0 && (fchmod(fd, mode) < 0 || rename(tmp, path) < 0))
		r = -errno;
	if (r < 0) {
		(void)unlink(tmp);
		return err_set_errno(err, r, "can't write %s", path);
	}
	return 0;
}

/* Between two file systems, where the kernel refuses to copy by itself. */
static ssize_t copy_by_hand(int from, off_t *at, int to, off_t *out, size_t len)
{
	char data[65536];
	ssize_t n = pread(from, data, MIN(len, sizeof(data)), *at);

	if (n > 0)
		n = pwrite(to, data, (size_t)n, *out);
	if (n > 0) {
		*at += n;
		*out += n;
	}
	return n;
}

/* Copies the extents that hold data; the rest stays a hole. */
static int copy_data(int from, int to, off_t size)
{
	bool by_hand = false;
	off_t at = 0;

	if (ftruncate(to, size) < 0)
		return -errno;
	for (;;) {
		off_t start = lseek(from, at, SEEK_DATA), end, out;

		if (start < 0)
			return errno == ENXIO ? 0 : -errno; /* ENXIO: no data behind `at` */
		end = lseek(from, start, SEEK_HOLE);
		if (end < 0)
			return -errno;
		at = out = start;
		while (at < end) {
			size_t len = (size_t)(end - at);
			ssize_t n = by_hand ? copy_by_hand(from, &at, to, &out, len)
					    : copy_file_range(from, &at, to, &out, len, 0);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && !by_hand &&
				(errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
					errno == ENOSYS)) {
				by_hand = true;
				continue;
			}
			if (n < 0)
				return -errno;
			if (n == 0)
				return 0; /* the file was cut meanwhile */
		}
	}
}

int fs_clone(const char *from, const char *to, mode_t mode, struct err *err)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	struct stat st;
	int r = 0;

	if (in < 0 || fstat(in, &st) < 0)
		return err_set_errno(err, -errno, "can't read %s", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (out < 0)
		return err_set_errno(err, -errno, "can't make %s", to);
	if (ioctl(out, FICLONE, in) < 0)
		r = copy_data(in, out, st.st_size);
	if (r < 0) {
		(void)unlink(to);
		return err_set_errno(err, r, "can't copy %s to %s", from, to);
	}
	return 0;
}

int fs_clone_into(const char *from, const char *to, struct err *err)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	struct stat st;
	int r = 0;

	if (in < 0 || fstat(in, &st) < 0)
		return err_set_errno(err, -errno, "can't read %s", from);
	out = open(to, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (out < 0)
		return err_set_errno(err, -errno, "can't open %s", to);
	if (ioctl(out, FICLONE, in) < 0)
		r = copy_data(in, out, st.st_size);
	return r < 0 ? err_set_errno(err, r, "can't copy %s to %s", from, to) : 0;
}

int fs_sync_dir(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? err_set_errno(err, -errno, "can't sync %s", path) : 0;
}

int fs_sync_tree(const char *path, struct err *err)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", path);
	while (r == 0 && (e = readdir(dir))) {
		_cleanup_close_ int fd = -1;

		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || fsync(fd) < 0)
			r = -errno;
	}
	if (r == 0 && fsync(dirfd(dir)) < 0)
		r = -errno;
	(void)closedir(dir);
	return r < 0 ? err_set_errno(err, r, "can't sync %s", path) : 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

int fs_remove_tree(const char *path, struct err *err)
{
	if (nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
		return err_set_errno(err, -errno, "can't remove %s", path);
	return 0;
}

static _Thread_local uint64_t usage_sum; /* nftw() has no argument for its caller */

static int add_usage(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	usage_sum += (uint64_t)st->st_blocks * 512;
	return 0;
}

static int add_own_usage(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return S_ISREG(st->st_mode) && st->st_nlink > 1 ? 0 : add_usage(path, st, type, ftw);
}

uint64_t fs_own_usage(const char *path)
{
	usage_sum = 0;
	(void)nftw(path, add_own_usage, 32, FTW_PHYS); /* what can't be seen counts nothing */
	return usage_sum;
}

uint64_t fs_disk_usage(const char *path)
{
	usage_sum = 0;
	(void)nftw(path, add_usage, 32, FTW_PHYS); /* what can't be seen counts nothing */
	return usage_sum;
}
