/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox asks of the package cache, got: from the cache, or downloaded into it, each thing once at a time. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "mirror/document.h"
#include "mirror/index.h"
#include "mirror/mirror_internal.h"

enum {
	WARN_PAUSE_MS = 60 * 1000,
	LOOK_MS = 1000, /* after a client that waits */
};

void mirror_item_done(struct item *it)
{
	fetch_done(&it->fetch);
	cleanup_close(&it->fd);
	free(it->url);
}

struct item mirror_item(const struct source *s, char *url)
{
	return (struct item){.fetch.source = s, .url = url, .key = url, .fd = -1};
}

/* ---- downloading ---- */

/* On the stack of who downloads. */
struct download {
	const char *key;
	struct download *next;
};

static int client_of(const struct request *rq)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(rq->conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static bool is_under_way(const struct mirror *m, const char *key)
{
	const struct download *d = m->downloads;

	while (d && strcmp(d->key, key) != 0)
		d = d->next;
	return d;
}

/* One for each key at a time. Whether there was one to wait for, or -ECANCELED: the client has gone meanwhile. */
static int begin_download(struct request *rq, struct download *d)
{
	struct mirror *m = rq->m;
	bool waited = false, unwanted = false;

	pthread_mutex_lock(&m->lock);
	while (!unwanted && is_under_way(m, d->key)) {
		struct timespec look = clock_deadline(LOOK_MS);

		(void)pthread_cond_timedwait(&m->ended, &m->lock, &look);
		waited = true;
		unwanted = fetch_is_unwanted(client_of(rq));
	}
	if (!unwanted) {
		d->next = m->downloads;
		m->downloads = d;
	}
	pthread_mutex_unlock(&m->lock);
	return unwanted ? -ECANCELED : waited;
}

static void end_download(struct mirror *m, const struct download *d)
{
	struct download **at = &m->downloads;

	pthread_mutex_lock(&m->lock);
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	pthread_cond_broadcast(&m->ended);
	pthread_mutex_unlock(&m->lock);
}

void mirror_warn(struct mirror *m, const char *url, const struct err *err)
{
	int64_t now_ms = clock_mono_ms(), last = atomic_load(&m->warned_ms);

	if (last == 0 || now_ms - last >= WARN_PAUSE_MS) {
		atomic_store(&m->warned_ms, now_ms);
		log_warn("the package cache can't give something", LOG_STR("url", url),
			LOG_STR("error", err_msg(err)));
	}
}

/* Puts the page as it is served into another file, and that in the place of *fd. */
static int localize(struct mirror *m, const struct item *it, int *fd)
{
	_cleanup_close_ int local = cache_new(m->cache);
	json_t *root;
	int r = local < 0 ? local : 0;

	pthread_mutex_lock(&m->parsing);
	root = document_read(*fd);
	if (r == 0)
		r = index_localize_page(root, it->fetch.source, it->url, it->project);
	if (r == 0)
		r = document_write(root, local);
	json_decref(root);
	pthread_mutex_unlock(&m->parsing);
	if (r == 0) {
		cleanup_close(fd);
		*fd = steal_fd(&local);
	}
	return r;
}

/* Puts what came into the cache; what it does not take is of use once, and takes of the room until then. */
static void keep(struct request *rq, struct item *it)
{
	if (it->key && cache_keep(rq->m->cache, it->fd, it->key) == 0)
		atomic_fetch_add(&rq->m->room, it->fetch.held);
	else
		rq->held += it->fetch.held;
}

static int download(struct request *rq, struct item *it)
{
	struct mirror *m = rq->m;
	_cleanup_close_ int fd = cache_new(m->cache);
	struct err err;
	int r;

	fetch_done(&it->fetch); /* of an earlier attempt */
	it->fetch.url = it->url;
	it->fetch.fd = fd;
	it->fetch.stop = &m->stop;
	it->fetch.room = &m->room;
	it->fetch.client_fd = client_of(rq);
	/* Of what is not kept a guest could take as much as it likes. */
	it->fetch.max_bytes =
		it->fetch.accept || !it->key ? (int64_t)LIMIT_PACKAGE_DOCUMENT_BYTES : INT64_MAX;
	r = fd < 0 ? err_set_errno(&err, fd, "it can't be kept") : fetch_run(&it->fetch, &err);
	if (r == 0 && it->fetch.status != MHD_HTTP_OK)
		return it->fetch.status == MHD_HTTP_NOT_FOUND ? -ENOENT : -EREMOTEIO;
	if (r == 0 && it->project) {
		r = localize(m, it, &fd);
		if (r < 0)
			(void)err_set_errno(&err, r, "it is no page in JSON (PEP 691)");
	}
	if (r < 0) {
		atomic_fetch_add(&m->room, it->fetch.held);
		if (r != -ECANCELED)
			mirror_warn(m, it->url, &err);
		return r;
	}
	cleanup_close(&it->fd); /* an older one */
	it->fd = steal_fd(&fd);
	keep(rq, it);
	return 0;
}

static bool is_fresh(const struct stat *st, int64_t max_age_s)
{
	int64_t age_s = clock_real_ms() / 1000 - st->st_mtime;

	return age_s >= 0 && age_s < max_age_s;
}

int mirror_obtain(struct request *rq, struct item *it, int64_t max_age_s)
{
	struct mirror *m = rq->m;
	bool lasts = !it->fetch.accept;
	struct download d = {.key = it->key};
	struct stat st;
	int waited, r;

	if (!it->key)
		return download(rq, it);
	waited = begin_download(rq, &d);
	if (waited < 0)
		return waited;
	cleanup_close(&it->fd);
	it->fd = cache_get(m->cache, it->key, lasts, &st);
	/* Whoever was before us has just tried: what there is now is as good as it gets. */
	if (it->fd >= 0 && !it->anew && (lasts || waited || is_fresh(&st, max_age_s)))
		r = 0;
	else
		r = download(rq, it);
	end_download(m, &d);
	return r == -ENOENT || it->fd < 0 ? r : 0;
}
