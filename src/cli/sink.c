/* SPDX-License-Identifier: Apache-2.0 */
/* The local ends of a download and an upload. */
#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/term.h"

void sink_done(struct sink *sink)
{
	if (sink->fd != STDOUT_FILENO)
		cleanup_close(&sink->fd);
}

int sink_open(struct sink *sink, struct err *err)
{
	if (sink->fd >= 0)
		return 0;
	if (strcmp(sink->path, "-") == 0)
		sink->fd = STDOUT_FILENO;
	else
		sink->fd = open(sink->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (sink->fd < 0)
		return err_set_errno(err, -errno, "cannot create %s", sink->path);
	return 0;
}

int sink_write(const char *data, size_t len, void *user, struct err *err)
{
	struct sink *sink = user;
	int r = sink_open(sink, err);

	if (r == 0)
		r = term_write(sink->fd, data, len, err);
	if (r == 0)
		sink->bytes += len;
	return r;
}

int source_open(const char *path, int *ret, int64_t *ret_bytes, struct err *err)
{
	_cleanup_close_ int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
							: open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_set(err, ERR_FILE_NOT_FOUND, -errno, "cannot open %s: %s", path,
			strerror(errno));
	if (fstat(fd, &st) < 0)
		return err_set_errno(err, -errno, "cannot read %s", path);
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, -EISDIR,
			"%s is a folder, and only files are copied; for a folder: "
			"tar c %s | pandastack sandbox cp - ID:/tmp/it.tar, and unpack it there",
			path, path);
	*ret_bytes = S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0 ? st.st_size : -1;
	*ret = steal_fd(&fd);
	return 0;
}
