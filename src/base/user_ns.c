/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces. */
#include "base/user_ns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

static int write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
}

int user_ns_map(uid_t uid, gid_t gid)
{
	char line[64];
	int r = write_text("/proc/self/setgroups", "deny");

	(void)snprintf(line, sizeof(line), "%u %u 1", (unsigned int)uid, (unsigned int)uid);
	if (r == 0)
		r = write_text("/proc/self/uid_map", line);
	(void)snprintf(line, sizeof(line), "%u %u 1", (unsigned int)gid, (unsigned int)gid);
	return r == 0 ? write_text("/proc/self/gid_map", line) : r;
}
