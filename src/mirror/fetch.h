/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GET from a source, over libcurl, into a file. It follows no redirects: where a source sends its clients is for them to reach.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mirror/index.h"
#include "mirror/source.h"

struct fetch {
	const char *url;
	const struct source *source; /* whose credentials are sent, to its own host only */
	const char *accept;          /* header, or NULL */
	int64_t since_s;             /* If-Modified-Since, or 0 */
	struct digest digest;        /* that it must have, where it is known */
	int64_t max_bytes;
	atomic_llong *room;      /* what all fetches together may still write */
	const atomic_bool *stop; /* set from elsewhere: it ends within a second */
	int client_fd;           /* for whom it is: when that hangs up it ends, too */
	int fd;                  /* the file, empty */
	/* What came: */
	int64_t held;        /* of the room; who has the file gives it back when that has gone */
	int status;          /* of HTTP; but for 200, the file stays empty */
	char *redirect;      /* owned; absolute, or NULL */
	char *last_modified; /* owned, or NULL */
};

/* Whether the other end of a connection has hung up. */
bool fetch_is_unwanted(int client_fd);

/* -ECANCELED where it is not wanted any more; -EBADMSG where what came has another digest; -EIO where the source was not reached, or the answer is not whole; -EFBIG, -ENOSPC, … */
int fetch_run(struct fetch *f, struct err *err);
void fetch_done(struct fetch *f);
