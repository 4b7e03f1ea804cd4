/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders of our own: made, written atomically, copied sparsely, removed whole. */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* Folders within each other that are gone through by recursion: who made them may mean no good. */
enum { DEPTH_MAX = 32 };

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* To a name in the top folder that nobody has. */
static int move_to_top(int top_fd, int dir_fd, const char *name)
{
	char other[32];

	for (unsigned int i = 0; i < UINT_MAX; i++) {
		(void)snprintf(other, sizeof(other), "deeper-%u", i);
		if (renameat2(dir_fd, name, top_fd, other, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int remove_below(int top_fd, int dir_fd, unsigned int depth, bool *again);

static int remove_entry(int top_fd, int dir_fd, const char *name, unsigned int depth, bool *again)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (depth == DEPTH_MAX) {
		*again = true;
		return move_to_top(top_fd, dir_fd, name);
	}
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = remove_below(top_fd, fd, depth + 1, again);
	return r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

/* All that is in the folder; `again`: what lay too deep is in the top folder now. */
static int remove_below(int top_fd, int dir_fd, unsigned int depth, bool *again)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!dir) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (e = readdir(dir))) {
		if (!is_dots(e->d_name))
			r = remove_entry(top_fd, dir_fd, e->d_name, depth, again);
	}
	(void)closedir(dir);
	return r;
}

int fs_remove_tree(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool again = fd >= 0;
	int r = 0;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0) /* a file, or a link */
		r = unlink(path) < 0 ? -errno : 0;
	while (r == 0 && again) {
		again = false;
		r = remove_below(fd, fd, 0, &again);
	}
	if (r == 0 && fd >= 0 && rmdir(path) < 0 && errno != ENOENT)
		r = -errno;
	return r < 0 ? err_set_errno(err, r, "can't remove %s", path) : 0;
}

/* What can't be seen, or lies too deep, counts nothing. */
static uint64_t usage_of(int dir_fd, const char *name, bool own, unsigned int depth)
{
	uint64_t sum = 0;
	struct stat st;
	const struct dirent *e;
	DIR *dir;
	int fd;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!own || !S_ISREG(st.st_mode) || st.st_nlink <= 1)
		sum = (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
		return sum;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		cleanup_close(&fd);
	while (dir && (e = readdir(dir))) {
		if (!is_dots(e->d_name))
			sum += usage_of(dirfd(dir), e->d_name, own, depth + 1);
	}
	if (dir)
		(void)closedir(dir);
	return sum;
}

uint64_t fs_own_usage(const char *path)
{
	return usage_of(AT_FDCWD, path, true, 0);
}

uint64_t fs_disk_usage(const char *path)
{
	return usage_of(AT_FDCWD, path, false, 0);
}
