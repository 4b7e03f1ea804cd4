/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the package cache share: mirror.c listens, serve.c answers, obtain.c gets what is asked for. */
#pragma once

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "mirror/cache.h"
#include "mirror/fetch.h"
#include "mirror/mirror.h"
#include "mirror/source.h"
#include "mirror/target.h"

struct mirror {
	struct MHD_Daemon *mhd; /* owned */
	struct cache *cache;    /* owned */
	struct sources sources;
	json_t *settings; /* owned */
	uint16_t port;
	atomic_bool stop;
	atomic_llong room; /* for files that are not in the cache, or not yet: half of its */
	atomic_llong warned_ms;
	pthread_mutex_t parsing;    /* held by who has a document in memory: it is large there */
	pthread_mutex_t lock;       /* protects `downloads` */
	pthread_cond_t ended;       /* one of them */
	struct download *downloads; /* borrowed: they lie on stacks */
};

struct request {
	struct mirror *m;            /* borrowed */
	struct MHD_Connection *conn; /* borrowed */
	char *text;                  /* owned; the target as it stands in the request */
	int64_t held;                /* of the room, until it has been answered */
};

/* Something of a source's: a document, where fetch.accept says of what type, or a file, which never changes if it is kept. */
struct item {
	struct fetch fetch;
	char *url;           /* owned */
	const char *key;     /* in the cache: mostly the URL; NULL: it is not kept */
	const char *project; /* whose page it is, where it is one of Python's */
	int fd;              /* owned; it, or -1 */
	bool anew;           /* asked for past what is kept, which it replaces */
};

void mirror_item_done(struct item *it);
#define _cleanup_item_ CLEANUP(mirror_item_done)
/* Something of that source's, kept under its URL. Takes the URL. */
struct item mirror_item(const struct source *s, char *url);

/* From the cache, where that is young enough, or else the source; it->fd is it. What is too old is better than none. -ENOENT, or another errno. */
int mirror_obtain(struct request *rq, struct item *it, int64_t max_age_s);

/* In the log, at a bounded rate: a guest can make it happen at any. */
void mirror_warn(struct mirror *m, const char *url, const struct err *err);

enum MHD_Result mirror_serve(struct request *rq, const struct target *t);
/* What is neither GET nor HEAD. */
enum MHD_Result mirror_serve_other(struct request *rq);
