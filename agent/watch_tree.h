/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a folder, by inotify(7). For a process of its own: it blocks, and takes what memory it takes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* Takes what happened, as text of JSON: {"ready":true} first, then {"events":[…]}; a frame at most. Anything but 0 ends the watch. */
typedef int watch_tree_fn(const char *text, size_t len, void *user);

/*
 * Watches the folder, and with `recursive` all below it on its file system, until it is gone or moved away (0), or until a negative
 * errno.
 */
int watch_tree(const char *path, bool recursive, watch_tree_fn *fn, void *user, struct err *err);
