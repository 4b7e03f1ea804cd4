/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last that a machine's console has said, for those who want to read it: the guest's kernel, and whoever writes there.
 *
 * Any thread may call, with any lock held; nothing is waited for.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bell.h"
#include "base/err.h"

enum { CONSOLE_BYTES = 16 << 10 }; /* that are kept */

struct console {
	pthread_mutex_t lock; /* protects all below */
	char *data;           /* owned, a ring; NULL until something was said */
	uint64_t total;       /* bytes ever said */
	bool closed;
	struct list followers;
};

void console_init(struct console *c);
void console_done(struct console *c);

void console_push(struct console *c, const void *data, size_t len);

/* Nothing will be said any more. */
void console_close(struct console *c);

/*
 * Copies what was said since *at (0 at first), as far as it is kept and fits, and moves *at behind it. Returns the number of bytes.
 * *ret_closed: nothing comes after these.
 */
size_t console_read(struct console *c, uint64_t *at, char *dst, size_t size, bool *ret_closed);

/* As event_log_follow(). */
int console_follow(struct console *c, struct follower *f, struct err *err);
void console_unfollow(struct console *c, struct follower *f);
