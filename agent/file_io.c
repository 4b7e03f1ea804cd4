/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small files: settings, /proc, /sys. */
#include "file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/parse.h"

enum {
	CHUNK = 4096,
	MEMINFO_BYTES = 64 * 1024,
};

int file_read_all(int fd, struct buf *ret)
{
	off_t at = 0;
	ssize_t n;
	int r = buf_append(ret, "", 0); /* text, even of an empty file */

	if (r < 0)
		return r;
	do {
		r = buf_reserve(ret, CHUNK);
		if (r < 0)
			return r;
		n = pread(fd, ret->data + ret->len, CHUNK, at);
		if (n < 0)
			return -errno;
		at += n;
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
	} while (n > 0);
	return 0;
}

int file_read_small(int dir_fd, const char *path, struct buf *ret)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? file_read_all(fd, ret) : -EINVAL;
}

FILE *file_open_text(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *f;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	f = fdopen(fd, "r");
	if (f)
		(void)steal_fd(&fd); /* fclose() closes it */
	return f;
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

uint64_t meminfo_bytes(const char *key)
{
	_cleanup_buf_ struct buf text = buf_init(MEMINFO_BYTES);
	char wanted[32], number[24];
	const char *row;
	uint64_t kib;

	(void)snprintf(wanted, sizeof(wanted), "%s:", key);
	if (file_read_small(AT_FDCWD, "/proc/meminfo", &text) < 0)
		return 0;
	row = strstr(text.data, wanted);
	if (!row)
		return 0;
	row += strlen(wanted);
	row += strspn(row, " ");
	(void)snprintf(number, sizeof(number), "%.*s", (int)strspn(row, "0123456789"), row);
	return parse_u64(number, 0, UINT64_MAX >> 10, &kib) < 0 ? 0 : kib << 10;
}

int file_put(const char *path, const char *contents, int mode)
{
	_cleanup_close_ int fd = open(path,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		(mode_t)mode);

	return fd < 0 ? -errno : write_all(fd, contents, strlen(contents));
}

int file_replace(int fd, const char *contents)
{
	size_t len = strlen(contents);
	ssize_t n = pwrite(fd, contents, len, 0);

	/* As a rule it is no longer than that, and this is known with less. */
	if (n < 0 || (lseek(fd, 0, SEEK_END) > n && ftruncate(fd, n) < 0))
		return -errno;
	return (size_t)n == len ? 0 : -ENOSPC;
}
