/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and capabilities. */
#include "jail/ids.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/walls.h"

/* Above what people, services and containers are given; a process's number has 22 bits. */
enum { FIRST_ID = 0x70000000 };

/* A file that all may read stays as it is. */
static int let_read(const char *path, gid_t gid)
{
	struct stat st;
	mode_t need;

	if (stat(path, &st) < 0)
		return -errno;
	need = S_ISDIR(st.st_mode) ? S_IRGRP | S_IXGRP : S_IRGRP;
	if ((st.st_mode & (need >> 3)) == need >> 3)
		return 0;
	return chown(path, (uid_t)-1, gid) < 0 || chmod(path, (st.st_mode | need) & 07777) < 0
		? -errno
		: 0;
}

int ids_choose(bool own, const struct walls *w, struct ids *ret, struct err *err)
{
	int r = 0;

	*ret = (struct ids){.uid = geteuid(), .gid = getegid()};
	if (!own || ret->uid != 0)
		return 0;
	*ret = (struct ids){FIRST_ID + (uid_t)getpid(), FIRST_ID, true};
	for (unsigned int i = 0; r == 0 && i < w->n_holes; i++) {
		const struct wall_hole *hole = &w->holes[i];

		if (hole->writable)
			r = chown(hole->path, ret->uid, ret->gid) < 0 ? -errno : 0;
		else
			r = let_read(hole->path, ret->gid);
		if (r < 0)
			(void)err_set_errno(err, r, "can't give %s to its machine", hole->path);
	}
	if (r == -EINVAL) { /* a container's root, who has fewer ids */
		*ret = (struct ids){.uid = geteuid(), .gid = getegid()};
		r = 0;
	}
	return r;
}

/* Root's that stays root must not get them back with the next program. */
static void close_bounds(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
}

int ids_take(const struct ids *ids, struct err *err)
{
	static const struct rlimit none = {0, 0}; /* a core is a guest's memory */
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};

	close_bounds();
	if (ids->change &&
		(setgroups(0, NULL) < 0 || setresgid(ids->gid, ids->gid, ids->gid) < 0 ||
			setresuid(ids->uid, ids->uid, ids->uid) < 0))
		return err_set_errno(err, -errno, "can't take the user id %u",
			(unsigned int)ids->uid);
	if (syscall(SYS_capset, &header, caps) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		setrlimit(RLIMIT_CORE, &none) < 0)
		return err_set_errno(err, -errno, "can't drop privileges");
	return 0;
}
