/* SPDX-License-Identifier: Apache-2.0 */
/* Which files below a mount point were written while a cell ran. */
/*
 * Theory of operation
 *
 * fanotify on the mount queues an event whenever a file is closed that was open for writing. Nothing is read while the
 * cell runs: an event holds the file, not its name, so reading it at the end gives the name that the file then has
 * (programs write to a temporary name and rename). Each session has a group of its own, so that they do not disturb
 * each other; its queue is bounded by the kernel (16,384 events), what is told by PATHS_MAX. Only the mark comes and goes
 * with the cell: the end of a group waits for a grace period of the kernel, some 10 ms.
 *
 * The workspace is a mount point for this alone (boot.c): a mark on the root would see every file that `pip install` writes.
 * Whoever writes there meanwhile (another session, a command) is seen too, except for this process.
 */
#include "changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/str.h"

enum {
	PATHS_MAX = 256,
	LIST_BYTES = 48 * 1024, /* of JSON: the whole answer is one frame, LIMIT_FRAME_BYTES */
	EVENTS_MAX = 4096,      /* that are looked at: a file may be written many times */
	PATH_BYTES = 4096,
};

static int mark(const struct changes *c, unsigned int action, const char *mount_point)
{
	return fanotify_mark(c->fd, action | FAN_MARK_MOUNT, FAN_CLOSE_WRITE, AT_FDCWD,
		mount_point);
}

void changes_watch(struct changes *c, const char *mount_point)
{
	if (c->fd < 0)
		c->fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK,
			O_RDONLY | O_LARGEFILE | O_CLOEXEC | O_NONBLOCK);
	c->watching = c->fd >= 0 && mark(c, FAN_MARK_ADD, mount_point) == 0;
}

void changes_done(struct changes *c)
{
	cleanup_close(&c->fd);
	*c = changes_init();
}

/* Adds the path of a regular file that has one. */
static void add_path(json_t *paths, int fd)
{
	char link[32], path[PATH_BYTES], clean[3 * PATH_BYTES + 1];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
		return;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	if (n <= 0 || (size_t)n == sizeof(path))
		return;
	(void)str_utf8_replace(clean, path, (size_t)n);
	(void)json_object_set_new(paths, clean, json_true());
}

/* One read of the queue: the number of events, 0 at its end. */
static int take_events(const struct changes *c, json_t *paths, bool *truncated)
{
	struct fanotify_event_metadata events[64], *ev = events;
	ssize_t len = read(c->fd, events, sizeof(events));
	int n = 0;

	for (; len > 0 && FAN_EVENT_OK(ev, len); ev = FAN_EVENT_NEXT(ev, len), n++) {
		if (ev->mask & FAN_Q_OVERFLOW)
			*truncated = true;
		if (ev->fd < 0)
			continue;
		if (ev->pid != getpid())
			add_path(paths, ev->fd);
		(void)close(ev->fd);
	}
	return n;
}

void changes_tell(const json_t *paths, bool truncated, json_t *answer)
{
	json_t *list = json_array(), *value;
	size_t bytes = 0;
	const char *path;

	json_object_foreach((json_t *)(uintptr_t)paths, path, value) {
		json_t *text = json_string(path);

		bytes += json_dumpb(text, NULL, 0, JSON_ENCODE_ANY) + strlen(",");
		if (json_array_size(list) == PATHS_MAX || bytes > LIST_BYTES) {
			json_decref(text);
			truncated = true;
			break;
		}
		(void)json_array_append_new(list, text);
	}
	(void)json_object_set_new(answer, "files_changed", list);
	if (truncated)
		(void)json_object_set_new(answer, "files_changed_truncated", json_true());
}

void changes_report(struct changes *c, const char *mount_point, json_t *answer)
{
	bool truncated = false;
	json_t *paths;
	int seen = 0, n;

	if (!c->watching)
		return;
	(void)mark(c, FAN_MARK_REMOVE,
		mount_point); /* fails when it was unmounted, and the mark with it */
	c->watching = false;
	paths = json_object();
	while (!truncated && (n = take_events(c, paths, &truncated)) > 0) {
		seen += n;
		truncated |= seen >= EVENTS_MAX || json_object_size(paths) > PATHS_MAX;
	}
	changes_tell(paths, truncated, answer);
	json_decref(paths);
	if (truncated)
		changes_done(c); /* and what is left in the queue */
}
