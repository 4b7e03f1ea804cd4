/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small files: settings, /proc, /sys. */
#include "file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"

enum { CHUNK = 4096 };

int file_read_small(int dir_fd, const char *path, struct buf *ret)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	do {
		r = buf_reserve(ret, CHUNK);
		if (r < 0)
			return r;
		n = read(fd, ret->data + ret->len, CHUNK);
		if (n < 0)
			return -errno;
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
	} while (n > 0);
	return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_write_small(int dir_fd, const char *path, const char *value)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : write_all(fd, value, strlen(value));
}

int file_write_number(int dir_fd, const char *path, unsigned long long value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", value);
	return file_write_small(dir_fd, path, text);
}

int file_put(const char *path, const char *contents, int mode)
{
	_cleanup_close_ int fd = open(path,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		(mode_t)mode);

	return fd < 0 ? -errno : write_all(fd, contents, strlen(contents));
}
