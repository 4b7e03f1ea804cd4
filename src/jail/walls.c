/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root is a tmpfs, made where /proc was, and takes its place. What shall be in it was taken up before, as detached mounts:
 * so no name leads elsewhere meanwhile.
 */
#include "jail/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/user_ns.h"

/* Where they are: for a program that is not static. */
static const char *const libraries[] = {"/usr", "/bin", "/lib", "/lib64"};

static const char *const devices[] = {"/dev/null", "/dev/urandom", "/dev/kvm", "/dev/net/tun"};
enum { N_DEVICES_WITHOUT_CARD = 3 };

void walls_done(struct walls *w)
{
	for (unsigned int i = 0; i < w->n_holes; i++)
		free(w->holes[i].path);
}

int walls_enter(struct err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r;

	if (unshare((uid ? CLONE_NEWUSER : 0) | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC |
		    CLONE_NEWUTS) < 0)
		return err_set_errno(err, errno == ENOSPC ? -EPERM : -errno,
			"this host allows no namespaces to its users");
	r = uid ? user_ns_map(uid, gid) : 0;
	return r < 0 ? err_set_errno(err, r, "can't map ids") : 0;
}

/* A detached mount of what is there. */
static int take_up(const char *path, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};
	_cleanup_close_ int fd =
		open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* A file or folder of that name in the new root, in which we are, to mount it on; or one that is there. */
static int make_place(const char *path, bool is_dir)
{
	_cleanup_free_ char *parent = xstrdup(path + 1);
	_cleanup_close_ int fd = -1;
	char *slash = strrchr(parent, '/');
	int r = 0;

	if (access(path + 1, F_OK) == 0)
		return 0;
	if (slash && !is_dir)
		*slash = '\0';
	if (slash || is_dir)
		r = fs_mkdirs(parent, 0755, NULL);
	if (r < 0 || is_dir)
		return r;
	fd = open(path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	return fd < 0 ? -errno : 0;
}

static int put_down(int fd, const char *path)
{
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : make_place(path, S_ISDIR(st.st_mode));

	return r == 0 && move_mount(fd, "", AT_FDCWD, path + 1, MOVE_MOUNT_F_EMPTY_PATH) < 0
		? -errno
		: r;
}

/* Root makes one for the machine's ids; another user has to have the right to the host's. */
static int put_device(const char *path, dev_t number, int fd, const struct ids *ids)
{
	_cleanup_free_ char *folder = xstrdup(path + 1);
	int r;

	if (geteuid() != 0)
		return put_down(fd, path);
	*strrchr(folder, '/') = '\0';
	r = fs_mkdirs(folder, 0755, NULL);
	return r == 0 &&
			(mknod(path + 1, S_IFCHR | 0600, number) < 0 ||
				chown(path + 1, ids->uid, ids->gid) < 0)
		? -errno
		: r;
}

struct taken {
	int libraries[ARRAY_SIZE(libraries)], devices[ARRAY_SIZE(devices)], holes[WALL_HOLES_MAX];
	dev_t numbers[ARRAY_SIZE(devices)];
};

static int take_all(const struct walls *w, size_t n_devices, struct taken *t, struct err *err)
{
	static const uint64_t read_only = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;

	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		t->libraries[i] = take_up(libraries[i], read_only); /* some hosts have fewer */
	for (size_t i = 0; i < n_devices; i++) {
		struct stat st;

		t->devices[i] = stat(devices[i], &st) < 0
			? -errno
			: take_up(devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
		if (t->devices[i] < 0)
			return err_set_errno(err, t->devices[i], "no %s for the machine",
				devices[i]);
		t->numbers[i] = st.st_rdev;
	}
	for (unsigned int i = 0; i < w->n_holes; i++) {
		const struct wall_hole *hole = &w->holes[i];

		t->holes[i] = take_up(hole->path,
			hole->writable ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
				       : read_only);
		if (t->holes[i] < 0)
			return err_set_errno(err, t->holes[i], "no %s for the machine", hole->path);
	}
	return 0;
}

/* pivot_root(2): the new root is mounted over the old one and then freed of it. */
static int replace_root(void)
{
	return syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
			chdir("/") < 0 ||
			mount(NULL, "/", NULL,
				MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0
		? -errno
		: 0;
}

int walls_build(const struct walls *w, const struct ids *ids, bool card, struct err *err)
{
	size_t n_devices = card ? ARRAY_SIZE(devices) : N_DEVICES_WITHOUT_CARD;
	struct taken t;
	mode_t mask;
	int r = take_all(w, n_devices, &t, err);

	if (r < 0)
		return r;
	mask = umask(022); /* the machine's ids are to pass through the folders */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755") < 0 ||
		chdir("/proc") < 0)
		return err_set_errno(err, -errno, "can't make a root");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(libraries); i++)
		r = t.libraries[i] < 0 ? 0 : put_down(t.libraries[i], libraries[i]);
	for (size_t i = 0; r == 0 && i < n_devices; i++)
		r = put_device(devices[i], t.numbers[i], t.devices[i], ids);
	for (unsigned int i = 0; r == 0 && i < w->n_holes; i++)
		r = put_down(t.holes[i], w->holes[i].path);
	(void)umask(mask);
	if (r == 0)
		r = replace_root();
	if (r == 0 && chdir(w->holes[0].path) < 0)
		r = -errno;
	return r < 0 ? err_set_errno(err, r, "can't make a root") : 0;
}
