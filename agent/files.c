/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the guest: read, write, stat, list, mkdir, move, remove. */
/*
 * Theory of operation
 *
 * The agent acts as root in the guest, on the guest's own files: a path leads where it leads, a
 * symlink included, and races with user code are user code's own affair. What must not happen is
 * that the loop hangs. So only regular files are read and written (a FIFO or a device could block),
 * in pieces of at most a frame, each when its stream has room; and what may take long (a deep
 * tree to remove, a move across file systems) runs in a child process (job.h).
 *
 * A write goes to a temporary file in the same directory, which takes the name when all is there:
 * a reader sees the old contents or the new, and an upload that breaks off leaves the old. Mode
 * and owner of a file that is replaced are kept. A symlink at the path is followed, like by open(2).
 *
 * A user-space file system (FUSE) that never answers can still block the agent: root in the guest
 * built it, and loses only this guest by it.
 */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/base64.h"
#include "base/macros.h"
#include "base/str.h"
#include "job.h"

enum {
	LIST_BATCH = 256,  /* entries of one EVENT */
	SYMLINKS_MAX = 40, /* as the kernel allows in one path */
	READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
};

static void fail(struct stream *s, int r, const char *path)
{
	stream_failf(s, r, "%s: %s", path, strerror(-r));
}

static int not_regular(mode_t mode, const char *path, struct err *err)
{
	if (S_ISREG(mode))
		return 0;
	if (S_ISDIR(mode))
		return err_set(err, ERR_INVALID, -EISDIR, "%s: is a directory", path);
	return err_set(err, ERR_INVALID, -EINVAL, "%s: not a regular file", path);
}

/* --- read ---------------------------------------------------------------------------------- */

struct reader {
	int fd;        /* owned */
	uint64_t left; /* announced and not yet sent; UINT64_MAX: up to the end (files of /proc) */
	uint64_t sent;
};

static void reader_free(struct reader *r)
{
	cleanup_close(&r->fd);
	free(r);
}

static void read_on_room(struct stream *s)
{
	struct reader *rd = s->owner;
	size_t want = MIN(stream_room(s), rd->left);
	ssize_t n = want ? stream_send_from(s, LINK_CH_BODY, rd->fd, -1, want) : 0;

	if (n > 0) {
		rd->sent += (uint64_t)n;
		rd->left -= (uint64_t)n;
		stream_want_room(s);
		return;
	}
	if (n < 0)
		stream_failf(s, (int)n, "reading: %s", strerror((int)-n));
	else
		stream_close(s, json_pack("{sI}", "bytes", (json_int_t)rd->sent));
	reader_free(rd);
}

static void read_on_gone(struct stream *s)
{
	reader_free(s->owner);
}

static const struct stream_ops read_ops = {
	.on_room = read_on_room,
	.on_gone = read_on_gone,
};

static json_t *octal(mode_t mode)
{
	return json_sprintf("%04o", mode & 07777U);
}

void files_read(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	_cleanup_close_ int fd = -1;
	struct reader *rd;
	struct stat st;
	struct err err;

	(void)agent;
	if (!path)
		return;
	fd = open(path, READ_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0) {
		fail(s, -errno, path);
		return;
	}
	if (not_regular(st.st_mode, path, &err) < 0) {
		stream_fail(s, &err);
		return;
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint */
	rd = xnew(struct reader);
	rd->fd = steal_fd(&fd);
	rd->left = st.st_size > 0 ? (uint64_t)st.st_size : UINT64_MAX;
	s->owner = rd;
	s->ops = &read_ops;
	stream_send_event(s,
		json_pack("{sI so sI}", "size", (json_int_t)st.st_size, "mode", octal(st.st_mode),
			"mtime", (json_int_t)st.st_mtime));
	stream_want_room(s);
}

/* --- write --------------------------------------------------------------------------------- */

struct writer {
	int fd;     /* owned */
	char *path; /* owned; symlinks resolved */
	char *temp; /* owned; NULL once it has the real name, or before it exists */
	uint64_t bytes;
};

static void writer_free(struct writer *w)
{
	if (w->temp)
		(void)unlink(w->temp); /* user code may have been faster */
	cleanup_close(&w->fd);
	free(w->temp);
	free(w->path);
	free(w);
}
DEFINE_CLEANUP(struct writer *, writer_free)

static void write_fail(struct stream *s, int r, const char *what)
{
	struct writer *w = s->owner;

	stream_failf(s, r, "%s %s: %s", what, w->path, strerror(-r));
	writer_free(w);
}

static void write_on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct writer *w = s->owner;

	for (size_t done = 0; done < len;) {
		ssize_t n = write(w->fd, data + done, len - done);

		if (n < 0) {
			write_fail(s, -errno, "writing");
			return;
		}
		done += (size_t)n;
	}
	w->bytes += len;
	stream_consumed(s, len);
}

static void write_on_end(struct stream *s)
{
	struct writer *w = s->owner;

	if (rename(w->temp, w->path) < 0) {
		write_fail(s, -errno, "renaming to");
		return;
	}
	free(steal_ptr(&w->temp));
	stream_close(s, json_pack("{sI}", "bytes", (json_int_t)w->bytes));
	writer_free(w);
}

static void write_on_gone(struct stream *s)
{
	writer_free(s->owner);
}

static const struct stream_ops write_ops = {
	.on_data = write_on_data,
	.on_end = write_on_end,
	.on_gone = write_on_gone,
};

/* The length of the directory part, "/" included. */
static size_t dir_len(const char *path)
{
	return (size_t)(strrchr(path, '/') - path) + 1;
}

/* Follows symlinks in the last component, existing or dangling; to be freed. */
static int follow(const char *path, char **ret)
{
	char target[PATH_MAX], *next;
	_cleanup_free_ char *at = strdup(path);

	for (int i = 0; at && i < SYMLINKS_MAX; i++) {
		ssize_t n = readlink(at, target, sizeof(target) - 1);

		if (n < 0) {
			*ret = steal_ptr(&at); /* no symlink; whatever else is wrong shows later */
			return 0;
		}
		target[n] = '\0';
		if (asprintf(&next, "%.*s%s", target[0] == '/' ? 0 : (int)dir_len(at), at, target) <
			0)
			return -ENOMEM;
		free(at);
		at = next;
	}
	return at ? -ELOOP : -ENOMEM;
}

/* mkdir -p. */
static int make_dirs(const char *path)
{
	_cleanup_free_ char *at = strdup(path);
	struct stat st;

	if (!at)
		return -ENOMEM;
	for (char *p = at; p;) {
		p = strchr(p + 1, '/');
		if (p)
			*p = '\0';
		if (mkdir(at, 0755) < 0 && errno != EEXIST)
			return -errno;
		if (p)
			*p = '/';
	}
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* Octal text as in `stat`; absent is *ret untouched. */
static int parse_mode(const char *text, mode_t *ret)
{
	mode_t mode = 0;

	if (!text)
		return 0;
	if (!*text || strlen(text) > 5 || text[strspn(text, "01234567")])
		return -EINVAL;
	for (; *text; text++)
		mode = mode << 3 | (mode_t)(*text - '0');
	if (mode > 07777)
		return -EINVAL;
	*ret = mode;
	return 0;
}

static int make_temp(struct writer *w)
{
	unsigned long long tag;

	if (getrandom(&tag, sizeof(tag), 0) < 0)
		return -errno;
	if (asprintf(&w->temp, "%.*s" FILES_TEMP_PREFIX "%016llx", (int)dir_len(w->path), w->path,
		    tag) < 0) {
		w->temp = NULL;
		return -ENOMEM;
	}
	w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->fd < 0) {
		int r = -errno;

		free(steal_ptr(&w->temp));
		return r;
	}
	return 0;
}

static int open_writer(struct writer *w, const char *path, const char *mode_text, struct err *err)
{
	_cleanup_free_ char *parent = NULL;
	mode_t mode = 0644;
	struct stat st;
	bool exists;
	int r;

	if (path[strlen(path) - 1] == '/')
		return err_set(err, ERR_INVALID, -EISDIR, "%s: is a directory's name", path);
	r = follow(path, &w->path);
	if (r < 0)
		return err_set_errno(err, r, "%s", path);
	exists = lstat(w->path, &st) == 0;
	if (exists) {
		r = not_regular(st.st_mode, path, err);
		if (r < 0)
			return r;
		mode = st.st_mode & 07777U;
	}
	if (parse_mode(mode_text, &mode) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"mode\" must be octal text like \"0644\"");
	parent = strndup(w->path, dir_len(w->path));
	r = parent ? make_dirs(parent) : -ENOMEM;
	if (r == 0)
		r = make_temp(w);
	if (r == 0 &&
		((exists && fchown(w->fd, st.st_uid, st.st_gid) < 0) || fchmod(w->fd, mode) < 0))
		r = -errno;
	return r < 0 ? err_set_errno(err, r, "%s", path) : 0;
}

void files_write(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	CLEANUP(writer_freep) struct writer *w = NULL;
	struct err err;

	(void)agent;
	if (!path)
		return;
	w = xnew(struct writer);
	w->fd = -1;
	if (open_writer(w, path, request_text(request, "mode"), &err) < 0) {
		stream_fail(s, &err);
		return;
	}
	s->owner = steal_ptr(&w);
	s->ops = &write_ops;
}

/* --- stat and list ------------------------------------------------------------------------- */

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFBLK:
	case S_IFCHR:
		return "device";
	default:
		return "other";
	}
}

static json_t *describe(const char *name, const struct stat *st)
{
	size_t len = strlen(name);
	json_t *info = json_pack("{sb sI so sI ss}", "is_dir", S_ISDIR(st->st_mode) ? 1 : 0, "size",
		(json_int_t)st->st_size, "mode", octal(st->st_mode), "mtime",
		(json_int_t)st->st_mtime, "type", type_name(st->st_mode));

	if (str_is_utf8(name, len)) {
		(void)json_object_set_new(info, "name", json_stringn(name, len));
	} else {
		char shown[3 * NAME_MAX + 1], bytes[BASE64_LENGTH(NAME_MAX) + 1];

		len = MIN(len, (size_t)NAME_MAX);
		base64_encode(bytes, name, len);
		(void)json_object_set_new(info, "name",
			json_string(str_utf8_replace(shown, name, len)));
		(void)json_object_set_new(info, "name_bytes", json_string(bytes));
	}
	return info;
}

/* The last component; "/" is its own. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void files_stat(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	struct stat st;
	json_t *info;

	(void)agent;
	if (!path)
		return;
	/* A symlink is described by what it leads to; a dangling one by itself. */
	if (stat(path, &st) < 0 && lstat(path, &st) < 0) {
		fail(s, -errno, path);
		return;
	}
	info = describe(base_name(path), &st);
	(void)json_object_set_new(info, "path", json_string(path));
	stream_close(s, info);
}

struct lister {
	DIR *dir;   /* owned */
	char *path; /* owned */
	char *text; /* owned; the EVENT under way, NULL between two */
	size_t len;
	size_t pos;
};

static void lister_free(struct lister *l)
{
	(void)closedir(l->dir);
	free(l->path);
	free(l->text);
	free(l);
}

/* The next entries as text; NULL at the end. */
static char *next_batch(struct lister *l)
{
	json_t *entries = json_array(), *event;
	const struct dirent *d;
	char *text = NULL;
	struct stat st;

	while (json_array_size(entries) < LIST_BATCH && (d = readdir(l->dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (fstatat(dirfd(l->dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			(void)json_array_append_new(entries, describe(d->d_name, &st));
	}
	if (json_array_size(entries)) {
		event = json_pack("{sO}", "entries", entries);
		text = json_dumps(event, JSON_COMPACT);
		json_decref(event);
	}
	json_decref(entries);
	return text;
}

static void list_on_room(struct stream *s)
{
	struct lister *l = s->owner;
	size_t n;

	if (!l->text) {
		l->text = next_batch(l);
		if (!l->text) {
			stream_close(s, json_pack("{ss}", "path", l->path));
			lister_free(l);
			return;
		}
		l->len = strlen(l->text);
		l->pos = 0;
	}
	n = MIN(stream_room(s), l->len - l->pos);
	stream_send(s, LINK_EVENT, l->pos + n < l->len ? LINK_MORE : 0, l->text + l->pos, n);
	l->pos += n;
	if (l->pos == l->len)
		free(steal_ptr(&l->text));
	stream_want_room(s);
}

static void list_on_gone(struct stream *s)
{
	lister_free(s->owner);
}

static const struct stream_ops list_ops = {
	.on_room = list_on_room,
	.on_gone = list_on_gone,
};

void files_list(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	_cleanup_close_ int fd = -1;
	struct lister *l;
	DIR *dir;

	(void)agent;
	if (!path)
		return;
	fd = open(path, READ_FLAGS | O_DIRECTORY);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		fail(s, -errno, path);
		return;
	}
	(void)steal_fd(&fd); /* closedir() closes it */
	l = xnew(struct lister);
	l->dir = dir;
	l->path = strdup(path);
	s->owner = l;
	s->ops = &list_ops;
	stream_want_room(s);
}

/* --- mkdir, move, remove ------------------------------------------------------------------- */

void files_mkdir(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");
	int r;

	(void)agent;
	if (!path)
		return;
	r = make_dirs(path);
	if (r < 0)
		fail(s, r == -ENOTDIR && access(path, F_OK) == 0 ? -EEXIST : r, path);
	else
		stream_close(s, json_object());
}

struct move {
	const char *from;
	const char *to;
};

/* Across file systems: what mv(1) does, with its words where it fails. */
static int move_by_copy(const void *arg, struct err *err)
{
	const struct move *m = arg;
	char said[256];
	size_t len = 0;
	ssize_t n = 0;
	int fds[2], status;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		return err_set_errno(err, -errno, "starting mv");
	if (pid == 0) {
		(void)dup2(fds[1], STDERR_FILENO);
		(void)execlp("mv", "mv", "-T", "--", m->from, m->to, NULL);
		_exit(127);
	}
	(void)close(fds[1]);
	while (len < sizeof(said) && (n = read(fds[0], said + len, sizeof(said) - len)) > 0)
		len += (size_t)n;
	(void)close(fds[0]);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_INTERNAL, -EIO, "moving across file systems: %.*s",
		(int)strcspn(len ? said : "mv failed\n", "\n"), len ? said : "mv failed\n");
}

void files_move(struct agent *agent, struct stream *s, const json_t *request)
{
	struct move m = {.from = request_path(s, request, "path")};

	if (m.from)
		m.to = request_path(s, request, "to");
	if (!m.to)
		return;
	if (rename(m.from, m.to) == 0)
		stream_close(s, json_object());
	else if (errno == EXDEV)
		job_start(agent, s, move_by_copy, &m);
	else
		fail(s, -errno, m.from);
}

/* "/" and all that is mounted somewhere. */
static bool is_mount_point(const char *path)
{
	struct statx sx;

	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &sx) == 0 &&
		(sx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int remove_tree(const void *arg, struct err *err)
{
	char *const paths[] = {strdup(arg), NULL}; /* NULL: fts_open() says ENOENT */
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV, NULL);
	const FTSENT *e;
	int r = fts ? 0 : -errno;

	while (r == 0 && (e = fts_read(fts))) {
		if (e->fts_info == FTS_D)
			continue;
		if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR)
			r = -e->fts_errno;
		else if (remove(e->fts_accpath) < 0 && errno != ENOENT)
			r = -errno;
		if (r < 0)
			(void)err_set_errno(err, r, "%s", e->fts_path);
	}
	if (!fts)
		(void)err_set_errno(err, r, "%s", (const char *)arg);
	return r; /* the process ends: fts is not worth closing */
}

void files_remove(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *path = request_path(s, request, "path");

	if (!path)
		return;
	if (is_mount_point(path))
		stream_failf(s, -EPERM, "%s: the root and mount points are not removed", path);
	else if (remove(path) == 0)
		stream_close(s, json_object());
	else if (errno == ENOTEMPTY || errno == EEXIST)
		job_start(agent, s, remove_tree, path);
	else
		fail(s, -errno, path);
}
