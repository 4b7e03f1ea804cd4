/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of things that are no more.
 *
 * The daemon's start does most of it (snapshots_open(), remove_orphans()); this is for one that runs. `captures` keeps
 * those away who make folders that are in no list yet. Folders of sandboxes are left to the start: a machine runs in each.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "core/core_internal.h"

struct gc {
	struct core *core;
	core_gc_fn *removed;
	void *user;
};

static void tell(const char *kind, const char *name, uint64_t bytes, core_gc_fn *removed,
	void *user)
{
	log_info("removed what nobody needs", LOG_STR("kind", kind), LOG_STR("name", name),
		LOG_INT("bytes", (int64_t)bytes));
	if (removed)
		removed(kind, name, bytes, user);
}

void gc_remove(const char *kind, const char *name, const char *path, core_gc_fn *removed,
	void *user)
{
	uint64_t bytes = fs_own_usage(path);
	struct err err;

	if (fs_remove_tree(path, &err) < 0)
		log_warn("can't remove a folder", LOG_STR("error", err_msg(&err)));
	else
		tell(kind, name, bytes, removed, user);
}

static int sweep_forks(const struct gc *gc, struct err *err)
{
	_cleanup_free_ char *path = fs_join(gc->core->data_dir, "forks");
	DIR *dir = opendir(path);
	const struct dirent *e;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", path);
	while ((e = readdir(dir))) {
		_cleanup_free_ char *entry = fs_join(path, e->d_name);

		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			gc_remove("fork", e->d_name, entry, gc->removed, gc->user);
	}
	(void)closedir(dir);
	return 0;
}

static void version_removed(const char *name, const char *version, uint64_t bytes, void *user)
{
	const struct gc *gc = user;
	_cleanup_free_ char *both = fs_join(name, version);

	tell("template", both, bytes, gc->removed, gc->user);
}

int core_gc(struct core *core, core_gc_fn *removed, void *user, struct err *err)
{
	struct gc gc = {.core = core, .removed = removed, .user = user};
	const struct template_sweep sweep = {.removed = version_removed, .user = &gc};
	int r;

	pthread_rwlock_wrlock(&core->captures);
	r = snapshots_sweep(core, removed, user, err);
	if (r == 0)
		r = sweep_forks(&gc, err);
	if (r == 0)
		r = template_sweep(core->templates, &sweep, err);
	pthread_rwlock_unlock(&core->captures);
	pool_look(core->pool); /* a spare machine has files of a version open that is gone */
	return r;
}
