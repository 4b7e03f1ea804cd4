/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who stands on which version of a template, and removing what nobody stands on.
 *
 * Theory of operation
 * -------------------
 * A version is held by a symbolic link below <template>/refs/<version>, which leads to the holder's folder and counts as
 * long as that is there. It is held, let go, or found to be held by nobody with a lock on the template's folder (flock(2);
 * `.lock` in it is another, which a build has for minutes). With that lock a version that nobody holds gets the name by
 * which it is not found; so whoever has held one has it, and all of it, until he lets go.
 *
 * What a daemon leaves that is killed is a version with that other name, and references to folders that are not there or no
 * more: the next sweep removes them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/fs.h"
#include "base/str.h"
#include "core/template.h"

enum {
	VERSION_CHARS_MIN = 16, /* of a version's name, hex: no other folder here looks like that */
	HOLDERS_LISTED = 8,     /* in an error's message, as UUIDs with ", " */
	HOLDERS_CHARS_MAX = HOLDERS_LISTED * 38,
};

/* Before the name of a version that is being removed. */
#define GONE ".gone-"

/* Returns the descriptor that has the lock. */
static int lock_refs(const char *template_dir)
{
	_cleanup_close_ int fd = open(template_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	do
		r = flock(fd, LOCK_EX);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : steal_fd(&fd);
}

static char *refs_dir(const char *template_dir, const char *version)
{
	char *path;

	if (asprintf(&path, "%s/refs/%s", template_dir, version) < 0)
		abort();
	return path;
}

/* In one step, for there may be one already: to this, or to where the data folder was before. */
static int put_ref(const char *dir, const char *id, const char *target)
{
	_cleanup_free_ char *link = fs_join(dir, id), *new = NULL;
	int r = fs_mkdirs(dir, 0755, NULL);

	if (r < 0)
		return r;
	if (asprintf(&new, "%s/.%s", dir, id) < 0)
		abort();
	(void)unlink(new); /* of one that was killed here */
	return symlink(target, new) < 0 || rename(new, link) < 0 ? -errno : 0;
}

int template_hold(struct template_set *set, const char *name, const char *version, const char *id,
	const char *target, struct err *err)
{
	_cleanup_free_ char *template_dir = fs_join(template_set_dir(set), name);
	_cleanup_free_ char *dir = refs_dir(template_dir, version);
	_cleanup_free_ char *held = fs_join(template_dir, version);
	_cleanup_close_ int lock_fd = lock_refs(template_dir);
	int r = MIN(lock_fd, 0);

	if (r == 0 && access(held, F_OK) < 0)
		r = -errno;
	if (r == 0)
		r = put_ref(dir, id, target);
	if (r == -ENOENT)
		return err_set(err, ERR_TEMPLATE_STALE, -ESTALE,
			"version %s of template %s is no more", version, name);
	return r < 0 ? err_set_errno(err, r, "can't hold the template (%s/%s)", dir, id) : 0;
}

void template_release(struct template_set *set, const char *name, const char *version,
	const char *id)
{
	_cleanup_free_ char *template_dir = fs_join(template_set_dir(set), name);
	_cleanup_free_ char *dir = refs_dir(template_dir, version), *link = fs_join(dir, id);
	_cleanup_close_ int lock_fd = lock_refs(template_dir);

	if (lock_fd < 0)
		return; /* there is nothing to let go; else it points nowhere soon, and does not count */
	(void)unlink(link);
	(void)rmdir(dir); /* fails while others are there */
}

/* A reference to something that is no more; what can't be told is taken for being there. */
static bool is_stale(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, 0) < 0 && errno == ENOENT;
}

/* How many hold that version; their ids are added to `ids`, or NULL, with ", " between them. */
static unsigned int count_holders(const char *template_dir, const char *version, struct buf *ids)
{
	_cleanup_free_ char *path = refs_dir(template_dir, version);
	DIR *dir = opendir(path);
	const struct dirent *e;
	unsigned int n = !dir && errno != ENOENT; /* somebody does, for all we know */

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || is_stale(dirfd(dir), e->d_name))
			continue;
		if (ids) /* as many as have room */
			(void)buf_appendf(ids, "%s%s", ids->len ? ", " : "", e->d_name);
		n++;
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

/* Gives a version that nobody holds the name by which it is not found. */
static int set_aside(const char *template_dir, const char *version, const char *aside,
	struct err *err)
{
	_cleanup_free_ char *path = fs_join(template_dir, version);
	_cleanup_close_ int lock_fd = lock_refs(template_dir);

	if (lock_fd >= 0 && count_holders(template_dir, version, NULL) > 0)
		return -EBUSY;
	if (lock_fd < 0 || rename(path, aside) < 0)
		return err_set_errno(err, lock_fd < 0 ? lock_fd : -errno, "can't remove %s", path);
	return 0;
}

int template_drop(const char *template_dir, const char *version, struct err *err)
{
	_cleanup_free_ char *aside = NULL;
	int r;

	if (asprintf(&aside, "%s/" GONE "%s", template_dir, version) < 0)
		abort();
	r = set_aside(template_dir, version, aside, err);
	return r == 0 ? fs_remove_tree(aside, err) : r;
}

/* False while it is being built. Where the lock can't be opened there is none. */
static bool lock_template(const char *template_dir, int *ret_fd)
{
	_cleanup_free_ char *path = fs_join(template_dir, ".lock");

	*ret_fd = open(path, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 || flock(*ret_fd, LOCK_EX | LOCK_NB) == 0;
}

/* -EBUSY where snapshots or sandboxes stand on any version. */
static int check_holders(const char *template_dir, const char *name, struct err *err)
{
	_cleanup_free_ char *path = fs_join(template_dir, "refs");
	DIR *dir = opendir(path);
	const struct dirent *e;
	_cleanup_buf_ struct buf ids = buf_init(HOLDERS_CHARS_MAX);
	unsigned int n = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			n += count_holders(template_dir, e->d_name, &ids);
	}
	if (dir)
		(void)closedir(dir);
	if (n == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, -EBUSY,
		"%u snapshot%s or sandbox%s stand%s on template %s (%s%s): delete them first, or "
		"remove it by force, which keeps what they need",
		n, n == 1 ? "" : "s", n == 1 ? "" : "es", n == 1 ? "s" : "", name, ids.data,
		n > HOLDERS_LISTED ? ", ..." : "");
}

bool template_is_version(const char *name)
{
	size_t len = strspn(name, "0123456789abcdef");

	return len >= VERSION_CHARS_MIN && name[len] == '\0';
}

/* All but the versions that are held, and who holds them. */
static int remove_unheld(const char *template_dir, struct err *err)
{
	DIR *dir = opendir(template_dir);
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", template_dir);
	while (r == 0 && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(template_dir, e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
			strcmp(e->d_name, ".lock") == 0 || strcmp(e->d_name, "refs") == 0)
			continue;
		r = template_is_version(e->d_name) ? template_drop(template_dir, e->d_name, err)
						   : fs_remove_tree(path, err);
		if (r == -EBUSY)
			r = 0;
	}
	(void)closedir(dir);
	return r;
}

/* ---- what nobody needs ---- */

/* Takes away references of holders that are gone, and what is left of one that was being made. The lock is held. */
static void drop_stale_refs(const char *template_dir, const char *version)
{
	_cleanup_free_ char *path = refs_dir(template_dir, version);
	DIR *dir = opendir(path);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			(e->d_name[0] == '.' || is_stale(dirfd(dir), e->d_name)))
			(void)unlinkat(dirfd(dir), e->d_name,
				0); /* best effort: it does not count */
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(path); /* fails while others are there */
}

static void drop_all_stale_refs(const char *template_dir)
{
	_cleanup_free_ char *path = fs_join(template_dir, "refs");
	_cleanup_close_ int lock_fd = lock_refs(template_dir);
	DIR *dir = lock_fd < 0 ? NULL : opendir(path);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			drop_stale_refs(template_dir, e->d_name);
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(path);
}

/* Empty when there is none, and then none of the versions is current. False when that can't be told. */
static bool read_current(const char *template_dir, char ret[NAME_MAX + 1])
{
	_cleanup_free_ char *path = fs_join(template_dir, "current");
	ssize_t n = readlink(path, ret, NAME_MAX);

	ret[n < 0 ? 0 : n] = '\0';
	return n >= 0 || errno == ENOENT;
}

static void sweep_versions(const char *template_dir, const char *name,
	const struct template_sweep *sweep)
{
	char current[NAME_MAX + 1];
	DIR *dir = read_current(template_dir, current) ? opendir(template_dir) : NULL;
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(template_dir, e->d_name);
		uint64_t bytes;

		if (str_starts_with(e->d_name, GONE))
			(void)fs_remove_tree(path, NULL); /* of a template_drop() that was killed */
		if (!template_is_version(e->d_name) || strcmp(e->d_name, current) == 0)
			continue;
		bytes = fs_own_usage(path);
		if (template_drop(template_dir, e->d_name, NULL) == 0)
			sweep->removed(name, e->d_name, bytes, sweep->user);
	}
	if (dir)
		(void)closedir(dir);
}

/* What is left of one that was removed, once nothing stands on it any more; fails while something is there. */
static void remove_if_empty(const char *template_dir)
{
	_cleanup_free_ char *lock = fs_join(template_dir, ".lock");
	DIR *dir = opendir(template_dir);
	const struct dirent *e;
	bool empty = dir;

	while (dir && (e = readdir(dir)))
		empty = empty &&
			(strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
				strcmp(e->d_name, ".lock") == 0);
	if (dir)
		(void)closedir(dir);
	if (empty) {
		(void)unlink(lock);
		(void)rmdir(template_dir);
	}
}

int template_remove(struct template_set *set, const char *name, bool force, uint64_t *ret_kept,
	struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	_cleanup_free_ char *dir = NULL, *current = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = template_get(set, name, &t, err);

	if (r < 0 && r != -ESTALE) /* what can't be used may still be removed */
		return r;
	dir = fs_join(template_set_dir(set), name);
	current = fs_join(dir, "current");
	if (!lock_template(dir, &lock_fd))
		return err_set(err, ERR_CONFLICT, -EBUSY,
			"template %s is being built: wait for the end of that", name);
	r = force ? 0 : check_holders(dir, name, err);
	if (r < 0)
		return r;
	/* First what it is found by, so that nobody starts from half of it. */
	if (unlink(current) < 0 && errno != ENOENT)
		return err_set_errno(err, -errno, "can't remove %s", current);
	r = remove_unheld(dir, err);
	drop_all_stale_refs(dir);
	remove_if_empty(dir);
	*ret_kept = fs_own_usage(dir); /* 0 where it is no more */
	return r;
}

int template_sweep(struct template_set *set, const struct template_sweep *sweep, struct err *err)
{
	DIR *dir = opendir(template_set_dir(set));
	const struct dirent *e;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", template_set_dir(set));
	while ((e = readdir(dir))) {
		_cleanup_free_ char *template_dir = fs_join(template_set_dir(set), e->d_name);
		_cleanup_close_ int lock_fd = -1;

		if (!template_name_ok(e->d_name) || !lock_template(template_dir, &lock_fd))
			continue; /* one that is being built is its builder's */
		drop_all_stale_refs(template_dir);
		sweep_versions(template_dir, e->d_name, sweep);
		remove_if_empty(template_dir);
	}
	(void)closedir(dir);
	return 0;
}
