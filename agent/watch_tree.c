/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a folder, by inotify(7). */
/*
 * Theory of operation
 *
 * inotify watches folders one by one and names what changes in them, so each folder of a tree has a watch; `dirs` has its path by
 * the watch's number. A folder that appears is watched first and read then, and what is in it already is told as created: so
 * nothing is missed, though something may be told twice. When a folder is renamed, so are the paths of all below it; when it
 * leaves the tree their watches are removed.
 *
 * The kernel tells a rename in two events, the second right behind the first. Where it comes not, the name has left the tree.
 *
 * All paths are relative to the folder. This process neither works in it nor holds it open: the kernel would not tell that it is gone.
 */
#include "watch_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"
#include "files.h"

enum {
	DIRS_MAX = 8192,      /* watched at once */
	BATCH_BYTES = 8192,   /* from here on a message is sent */
	PAIR_MS = 10,         /* between the two events of a rename */
	READ_BYTES = 1 << 16, /* of inotify, at once */
};

/* Two paths, every byte of which is escaped as JSON does it, fit behind a batch. */
static_assert(BATCH_BYTES + 2 * 6 * PATH_MAX + 256 <= LIMIT_FRAME_BYTES, "a message fits a frame");

static const uint32_t MASK = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |
	IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK;

struct tree {
	int fd;
	int root_wd;
	const char *root; /* absolute; "" is / */
	bool recursive;
	json_t *dirs; /* the watch's number as text: the path, any bytes; "" is the folder itself */
	struct buf batch;
	char last[8 +
		PATH_MAX]; /* the last event of the batch, so that it is not told again and again */
	/* The first half of a rename. */
	uint32_t cookie; /* 0: none */
	bool moved_dir;
	char moved[PATH_MAX];
	bool over;
	watch_tree_fn *fn;
	void *user;
};

/* ---- what is told ---- */

static int flush(struct tree *t)
{
	int r = 0;

	if (t->batch.len) {
		if (buf_append(&t->batch, "]}", 2) < 0)
			return -ENOMEM;
		r = t->fn(t->batch.data, t->batch.len, t->user);
	}
	buf_clear(&t->batch);
	t->last[0] = '\0';
	return r;
}

/* `to` may be NULL. */
static int tell(struct tree *t, const char *type, const char *path, bool is_dir, const char *to)
{
	char text[3 * PATH_MAX + 1], to_text[3 * PATH_MAX + 1], same[sizeof(t->last)];
	json_t *event;
	int r;

	(void)snprintf(same, sizeof(same), "%s %s", type, path);
	if (!to && strcmp(same, t->last) == 0)
		return 0;
	str_utf8_replace(text, path, strlen(path));
	if (to)
		str_utf8_replace(to_text, to, strlen(to));
	event = json_pack("{ss ss sb ss*}", "type", type, "path", text, "is_dir", is_dir, "to",
		to ? to_text : NULL);
	r = t->batch.len ? buf_append(&t->batch, ",", 1)
			 : buf_append(&t->batch, "{\"events\":[", 11);
	if (r == 0)
		r = json_dump_callback(event, buf_sink, &t->batch, JSON_COMPACT);
	json_decref(event);
	if (r < 0)
		return -ENOMEM;
	memcpy(t->last, same, sizeof(same));
	return t->batch.len >= BATCH_BYTES ? flush(t) : 0;
}

/* ---- folders ---- */

/* A file that the agent writes for the host: it is told when it has its name. */
static bool is_upload(const char *path)
{
	const char *slash = strrchr(path, '/');

	return str_starts_with(slash ? slash + 1 : path, FILES_TEMP_PREFIX);
}

static const char *dir_of(const struct tree *t, int wd)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "%d", wd);
	return json_string_value(json_object_get(t->dirs, key));
}

/* The path of a path in the tree, which may be cut: then nothing is there. */
static char *absolute(const struct tree *t, const char *path, char dst[2 * PATH_MAX])
{
	(void)snprintf(dst, 2 * PATH_MAX, "%s/%s", t->root, path);
	return dst;
}

/* 0; -ENOENT where it is gone already or no folder; -EDQUOT where there are too many. */
static int add_dir(struct tree *t, const char *path)
{
	char key[16], full[2 * PATH_MAX];
	int wd;

	if (json_object_size(t->dirs) >= DIRS_MAX)
		return -EDQUOT;
	wd = inotify_add_watch(t->fd, absolute(t, path, full), MASK);
	if (wd < 0)
		return errno == ENOSPC ? -EDQUOT : -ENOENT;
	if (!*path)
		t->root_wd = wd;
	(void)snprintf(key, sizeof(key), "%d", wd);
	(void)json_object_set_new(t->dirs, key, json_string_nocheck(path));
	return 0;
}

/* Watches that folder and those below it; with `told` says what is in them. */
static int add_tree(struct tree *t, const char *path, bool told)
{
	char start[2 * PATH_MAX];
	char *const roots[] = {absolute(t, path, start), NULL};
	size_t root_len = strlen(t->root);
	const FTSENT *e;
	FTS *fts;
	int r = 0;

	fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	if (!fts)
		return -ENOMEM;
	while (r == 0 && (e = fts_read(fts))) {
		bool is_dir = e->fts_info == FTS_D;
		const char *name = e->fts_path + MIN(e->fts_pathlen, root_len + 1);

		if (e->fts_info == FTS_DP || e->fts_pathlen >= PATH_MAX)
			continue;
		if (told && e->fts_level > 0 && !is_upload(name))
			r = tell(t, "create", name, is_dir, NULL);
		if (r == 0 && is_dir) {
			r = add_dir(t, name);
			if (r == -ENOENT)
				r = 0;
		}
	}
	(void)fts_close(fts);
	return r;
}

/* A folder has come. */
static int on_new_dir(struct tree *t, const char *path)
{
	int r = t->recursive ? add_tree(t, path, true) : 0;

	return r == -EDQUOT ? tell(t, "overflow", path, true, NULL) : r;
}

/* What lies below `path`: the part behind it, else NULL. */
static const char *below(const char *dir, const char *path)
{
	size_t len = strlen(path);

	return strncmp(dir, path, len) == 0 && (!dir[len] || dir[len] == '/') ? dir + len : NULL;
}

static void move_dirs(struct tree *t, const char *from, const char *to)
{
	const char *key;
	json_t *value;

	json_object_foreach(t->dirs, key, value) {
		const char *rest = below(json_string_value(value), from);
		char path[2 * PATH_MAX];

		if (!rest)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", to, rest);
		(void)json_string_set_nocheck(value, path);
	}
}

/* Their paths go when the kernel says that the watches are gone (IN_IGNORED). */
static void forget_dirs(struct tree *t, const char *path)
{
	const char *key;
	json_t *value;

	json_object_foreach(t->dirs, key, value) {
		int64_t wd;

		if (below(json_string_value(value), path) && parse_i64(key, 0, INT_MAX, &wd) == 0)
			(void)inotify_rm_watch(t->fd, (int)wd); /* fails where it is gone */
	}
}

/* ---- what the kernel tells ---- */

/* The second half has not come: the name has left the tree. */
static int end_move(struct tree *t)
{
	if (!t->cookie)
		return 0;
	t->cookie = 0;
	if (t->moved_dir)
		forget_dirs(t, t->moved);
	return tell(t, "remove", t->moved, t->moved_dir, NULL);
}

static int on_moved_to(struct tree *t, uint32_t cookie, const char *path, bool is_dir)
{
	int r;

	if (t->cookie && t->cookie == cookie) {
		t->cookie = 0;
		if (is_upload(t->moved)) {
			r = tell(t, "create", path, is_dir, NULL);
			return r == 0 ? tell(t, "write", path, is_dir, NULL) : r;
		}
		if (is_dir)
			move_dirs(t, t->moved, path);
		return tell(t, "rename", t->moved, is_dir, path);
	}
	r = tell(t, "create", path, is_dir, NULL);
	return r == 0 && is_dir ? on_new_dir(t, path) : r;
}

static int on_named(struct tree *t, const struct inotify_event *ev, const char *path)
{
	bool is_dir = ev->mask & IN_ISDIR;
	int r;

	if (ev->mask & IN_MOVED_TO)
		return on_moved_to(t, ev->cookie, path, is_dir);
	if (ev->mask & IN_MOVED_FROM) {
		t->cookie = ev->cookie;
		t->moved_dir = is_dir;
		(void)snprintf(t->moved, sizeof(t->moved), "%s", path);
		return 0;
	}
	if (is_upload(path))
		return 0;
	if (ev->mask & IN_CREATE) {
		r = tell(t, "create", path, is_dir, NULL);
		return r == 0 && is_dir ? on_new_dir(t, path) : r;
	}
	if (ev->mask & IN_DELETE)
		return tell(t, "remove", path, is_dir, NULL);
	if (ev->mask & IN_MODIFY)
		return tell(t, "write", path, is_dir, NULL);
	return ev->mask & IN_ATTRIB ? tell(t, "chmod", path, is_dir, NULL) : 0;
}

static int on_event(struct tree *t, const struct inotify_event *ev)
{
	const char *dir;
	char path[PATH_MAX], key[16];
	int r = 0;

	if (!(ev->mask & IN_MOVED_TO) || ev->cookie != t->cookie)
		r = end_move(t);
	if (r < 0)
		return r;
	if (ev->mask & IN_Q_OVERFLOW)
		return tell(t, "overflow", "", true, NULL);
	if (ev->mask & IN_IGNORED) {
		(void)snprintf(key, sizeof(key), "%d", ev->wd);
		(void)json_object_del(t->dirs, key);
		return 0;
	}
	if (ev->wd == t->root_wd && ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) {
		t->over = true;
		return tell(t, "remove", "", true, NULL);
	}
	dir = dir_of(t, ev->wd);
	if (!dir || !ev->len) /* what happens to a folder its parent tells, too */
		return 0;
	r = snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", ev->name);
	return (size_t)r < sizeof(path) ? on_named(t, ev, path) : 0;
}

/* Whether the kernel has more, at once or (after the first half of a rename) in a moment. */
static bool has_more(const struct tree *t)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};

	return poll(&p, 1, t->cookie ? PAIR_MS : 0) > 0;
}

static int take_events(struct tree *t)
{
	static char data[READ_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t len = read(t->fd, data, sizeof(data));
	int r = len < 0 && errno != EINTR ? -errno : 0;

	for (ssize_t at = 0; r == 0 && at < len && !t->over;) {
		const struct inotify_event *ev = (const void *)(data + at);

		at += (ssize_t)sizeof(*ev) + ev->len;
		r = on_event(t, ev);
	}
	if (r == 0 && (t->over || !has_more(t))) {
		r = end_move(t);
		if (r == 0)
			r = flush(t);
	}
	return r;
}

static int begin(struct tree *t, const char *path, struct err *err)
{
	static const char ready[] = "{\"ready\":true}";
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_set_errno(err, -errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set_errno(err, -ENOTDIR, "%s", path);
	t->fd = inotify_init1(IN_CLOEXEC);
	if (t->fd < 0)
		return err_set_errno(err, -errno, "no more can be watched at once");
	r = t->recursive ? add_tree(t, "", false) : add_dir(t, "");
	if (r == -EDQUOT)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"%s has too many folders below it (%d can be watched): watch one of them",
			path, DIRS_MAX);
	if (r < 0)
		return err_set_errno(err, r, "%s", path);
	return t->fn(ready, strlen(ready), t->user);
}

int watch_tree(const char *path, bool recursive, watch_tree_fn *fn, void *user, struct err *err)
{
	_cleanup_free_ char *root = realpath(path, NULL);
	struct tree t = {
		.fd = -1,
		.root_wd = -1,
		.root = !root                    ? path
			: strcmp(root, "/") == 0 ? ""
						 : root,
		.recursive = recursive,
		.dirs = json_object(),
		.batch = buf_init(LIMIT_FRAME_BYTES),
		.fn = fn,
		.user = user,
	};
	int r = begin(&t, path, err);

	while (r == 0 && !t.over) {
		r = take_events(&t);
		if (r < 0)
			(void)err_set_errno(err, r, "watching %s", path);
	}
	cleanup_close(&t.fd);
	json_decref(t.dirs);
	buf_done(&t.batch);
	return r;
}
