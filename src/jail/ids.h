/* SPDX-License-Identifier: Apache-2.0 */
/* Who the program is: ids that nobody else has, where root starts it, and no capabilities. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct walls;

struct ids {
	uid_t uid;
	gid_t gid;
	bool change;
};

/*
 * Root's `own` ones are those of this process's number, which nobody else has while it lives, and a group of all machines. What is
 * writable among the holes becomes theirs; what is not, they may read.
 */
int ids_choose(bool own, const struct walls *w, struct ids *ret, struct err *err);

/* Takes them, and gives up everything else, for good. */
int ids_take(const struct ids *ids, struct err *err);
