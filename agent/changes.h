/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files below a mount point were written while a cell ran.
 *
 * changes_watch() → … → changes_report(), again and again; changes_done() at last, which is right at any time. Where the
 * kernel cannot watch (no fanotify, no privilege: tests on a host) nothing is reported.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct changes {
	int fd; /* owned; -1: none yet */
	bool watching;
};

static inline struct changes changes_init(void)
{
	return (struct changes){.fd = -1};
}

void changes_watch(struct changes *c, const char *mount_point);

/*
 * Sets `files_changed` in `answer`: the paths of regular files that were closed after writing and are still there, each
 * once; and `files_changed_truncated` where there were more than are told.
 */
void changes_report(struct changes *c, const char *mount_point, json_t *answer);

/* The same of these paths (the keys of an object, borrowed), as many as one frame surely has room for. */
void changes_tell(const json_t *paths, bool truncated, json_t *answer);

void changes_done(struct changes *c);
