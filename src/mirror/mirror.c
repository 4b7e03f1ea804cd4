/* SPDX-License-Identifier: Apache-2.0 */
/* The listener of the package cache, and what it answers. */
#include "mirror/mirror.h"

#include <curl/curl.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "mirror/cache.h"
#include "mirror/document.h"
#include "mirror/fetch.h"
#include "mirror/index.h"
#include "mirror/peer.h"
#include "mirror/target.h"
#include "proto/guest_net.h"

enum {
	FRESH_SECONDS = 300, /* a document */
	IDLE_SECONDS = 60,
	CONNECTION_BYTES = 32 << 10, /* read and write buffers of one */
	STACK_BYTES = 1 << 20,       /* for jansson's deepest JSON, as in http/server.c */
	SETTINGS_BYTES_MAX = 64 << 10,
	WARN_PAUSE_MS = 60 * 1000,
	LOOK_MS = 1000,     /* after a client that waits */
	UID_NOBODY = 65534, /* that helpers of a daemon of root's become */
};

#define URL_OF_MIRROR "http://" GUEST_NET_MIRROR "/"

static const char python_type[] = "application/vnd.pypi.simple.v1+json";
/* Of the two forms that a registry has, the one for all purposes. */
static const char npm_type[] = "application/json";

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
};

static char *join(const char *a, const char *b)
{
	char *s;

	if (asprintf(&s, "%s%s", a, b) < 0)
		abort();
	return s;
}

static void item_done(struct item *it)
{
	fetch_done(&it->fetch);
	cleanup_close(&it->fd);
	free(it->url);
}
#define _cleanup_item_ CLEANUP(item_done)

/* Takes the URL. */
static struct item item_of(const struct source *s, char *url)
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

/* A guest can make it happen at any rate. */
static void warn(struct mirror *m, const char *url, const struct err *err)
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
			warn(m, it->url, &err);
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

/* From the cache, where that is young enough, or else the source. What is too old is better than none. */
static int obtain(struct request *rq, struct item *it, int64_t max_age_s)
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
	if (it->fd >= 0 && (lasts || waited || is_fresh(&st, max_age_s)))
		r = 0;
	else
		r = download(rq, it);
	end_download(m, &d);
	return r == -ENOENT || it->fd < 0 ? r : 0;
}

/* ---- answers ---- */

/* Takes the response. */
static enum MHD_Result reply(struct request *rq, unsigned int status, struct MHD_Response *response,
	const char *header, const char *value)
{
	enum MHD_Result ok;

	if (!response)
		return MHD_NO;
	if (value)
		(void)MHD_add_response_header(response, header, value);
	ok = MHD_queue_response(rq->conn, status, response);
	MHD_destroy_response(response);
	return ok;
}

static enum MHD_Result reply_text(struct request *rq, unsigned int status, const char *text)
{
	return reply(rq, status,
		MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
			MHD_RESPMEM_MUST_COPY),
		"Content-Type", "text/plain");
}

static enum MHD_Result reply_not_found(struct request *rq)
{
	return reply_text(rq, MHD_HTTP_NOT_FOUND, "The host's package index has no such thing.\n");
}

/* With the same method. */
static enum MHD_Result reply_redirect(struct request *rq, const char *url)
{
	return reply(rq, MHD_HTTP_TEMPORARY_REDIRECT,
		MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), "Location", url);
}

/* Takes the descriptor. */
static enum MHD_Result reply_file(struct request *rq, int fd, const char *header, const char *value)
{
	struct MHD_Response *response = NULL;
	struct stat st;

	if (fstat(fd, &st) == 0)
		response = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
	if (!response)
		(void)close(fd);
	return reply(rq, MHD_HTTP_OK, response, header, value);
}

/* What obtain() returned for it. */
static enum MHD_Result reply_item(struct request *rq, struct item *it, int r)
{
	const struct fetch *f = &it->fetch;

	if (r == -ENOENT)
		return reply_not_found(rq);
	if (r < 0)
		return reply_redirect(rq, f->redirect ? f->redirect : it->url);
	if (f->accept)
		return reply_file(rq, steal_fd(&it->fd), "Content-Type", f->accept);
	return reply_file(rq, steal_fd(&it->fd), "Last-Modified", f->last_modified);
}

/* ---- Python and npm ---- */

static struct item python_page(const struct mirror *m, const char *project)
{
	_cleanup_free_ char *link = join(project, "/");
	struct item it = item_of(&m->sources.pypi, join(m->sources.pypi.base, link));

	it.fetch.accept = python_type;
	it.project = project;
	return it;
}

static enum MHD_Result serve_python_page(struct request *rq, const char *project)
{
	_cleanup_item_ struct item page = python_page(rq->m, project);

	return reply_item(rq, &page, obtain(rq, &page, FRESH_SECONDS));
}

/* Finds the file in its document: its digest, and of a Python file the URL. */
static int find_file(struct request *rq, struct item *document, int64_t max_age_s,
	const struct target *t, struct item *file)
{
	int r = obtain(rq, document, max_age_s);
	json_t *root;

	if (r < 0)
		return r;
	pthread_mutex_lock(&rq->m->parsing);
	root = document_read(document->fd);
	if (t->kind == TARGET_PYTHON_FILE)
		r = index_find_python(root, document->fetch.source, t->hash, t->file, &file->url,
			&file->fetch.digest);
	else
		r = index_find_npm(root, file->url, &file->fetch.digest);
	json_decref(root);
	pthread_mutex_unlock(&rq->m->parsing);
	return r;
}

static int obtain_file(struct request *rq, struct item *document, const struct target *t,
	struct item *file)
{
	struct stat st;
	int r;

	file->fd = cache_get(rq->m->cache, file->key, true, &st);
	if (file->fd >= 0)
		return 0;
	r = find_file(rq, document, INT64_MAX, t, file);
	if (r == -ENOENT) /* it may be newer than what is kept of the document */
		r = find_file(rq, document, 0, t, file);
	return r == 0 ? obtain(rq, file, 0) : r;
}

static enum MHD_Result serve_python_file(struct request *rq, const struct target *t)
{
	_cleanup_item_ struct item page = python_page(rq->m, t->name);
	_cleanup_free_ char *key = target_of_file(t->name, t->hash, t->file);
	_cleanup_item_ struct item file = {.fetch.source = page.fetch.source, .key = key, .fd = -1};
	int r = obtain_file(rq, &page, t, &file);

	if (r < 0 && r != -ENOENT && !file.url)
		return reply_text(rq, MHD_HTTP_BAD_GATEWAY,
			"The host's package index is not reached.\n");
	return reply_item(rq, &file, r);
}

static struct item npm_metadata(const struct mirror *m, const char *package)
{
	_cleanup_free_ char *link = curl_easy_escape(NULL, package, 0);
	struct item it;

	if (!link)
		abort(); /* out of memory */
	it = item_of(&m->sources.npm, join(m->sources.npm.base, link));
	it.fetch.accept = npm_type;
	return it;
}

static enum MHD_Result serve_npm_metadata(struct request *rq, const char *package)
{
	_cleanup_item_ struct item it = npm_metadata(rq->m, package);

	return reply_item(rq, &it, obtain(rq, &it, FRESH_SECONDS));
}

static enum MHD_Result serve_npm_tarball(struct request *rq, const struct target *t)
{
	const struct source *s = &rq->m->sources.npm;
	_cleanup_item_ struct item metadata = npm_metadata(rq->m, t->name);
	_cleanup_free_ char *url = source_resolve(s->base, rq->text);
	_cleanup_item_ struct item file = {.fd = -1};
	int r;

	if (!url || !source_owns(s, url))
		return reply_not_found(rq);
	file = item_of(s, steal_ptr(&url));
	r = obtain_file(rq, &metadata, t, &file);
	/* What has no hash is not ours to give. */
	return r == -ENOENT ? reply_redirect(rq, file.url) : reply_item(rq, &file, r);
}

/* What else the registry has lies below its base. */
static enum MHD_Result redirect_npm(struct request *rq)
{
	const struct source *s = &rq->m->sources.npm;
	const char *text = rq->text;
	_cleanup_free_ char *url =
		source_resolve(s->base, str_starts_with(text, s->path) ? text : text + 1);

	return url ? reply_redirect(rq, url) : reply_not_found(rq);
}

/* ---- apt ---- */

/* The URL, to be freed, and whose it is; NULL: none of the host's own archives has it. */
static char *find_archive(const struct mirror *m, const char *text, const struct source **ret)
{
	char *url = source_resolve(text, text); /* normalised */
	/* Whatever else could lead out of an archive. */
	bool odd = url && (strchr(url, '?') || strcasestr(url, "%2e"));

	for (size_t i = 0; url && !odd && i < m->sources.n_apt; i++) {
		*ret = &m->sources.apt[i];
		if (str_starts_with(url, (*ret)->base))
			return url;
	}
	free(url);
	return NULL;
}

/* Files that never change under their name: packages, and indexes that are named after their hash. */
static bool is_lasting(const char *url, struct digest *ret)
{
	static const char infix[] = "/by-hash/SHA256/";
	const char *hash = strstr(url, infix), *dot = strrchr(url, '.');

	if (hash)
		return digest_from_hex(hash + strlen(infix), ret) == 0;
	return strstr(url, "/pool/") || (dot && strcmp(dot, ".deb") == 0);
}

static enum MHD_Result serve_apt(struct request *rq)
{
	const struct source *s = NULL;
	const char *since;
	char *url = find_archive(rq->m, rq->text, &s);
	_cleanup_item_ struct item it = item_of(s, url);
	int r;

	if (!url)
		return reply_text(rq, MHD_HTTP_FORBIDDEN,
			"This is none of the archives that the host's own apt uses.\n");
	if (!is_lasting(url, &it.fetch.digest)) {
		it.key = NULL;
		since = MHD_lookup_connection_value(rq->conn, MHD_HEADER_KIND, "If-Modified-Since");
		it.fetch.since_s = since ? curl_getdate(since, NULL) : 0;
	}
	r = obtain(rq, &it, 0);
	if (r == 0 || r == -ENOENT || it.fetch.redirect)
		return reply_item(rq, &it, r);
	if (it.fetch.status == MHD_HTTP_NOT_MODIFIED)
		return reply_text(rq, MHD_HTTP_NOT_MODIFIED, "");
	return reply_text(rq, MHD_HTTP_BAD_GATEWAY, "The archive is not reached.\n");
}

/* ---- requests ---- */

/* Whether the host has an index for it. */
static bool is_offered(const struct sources *s, enum target_kind kind)
{
	switch (kind) {
	case TARGET_PYTHON_PAGE:
	case TARGET_PYTHON_FILE:
		return s->pypi.base;
	case TARGET_NPM_METADATA:
	case TARGET_NPM_TARBALL:
	case TARGET_NPM_OTHER:
		return s->npm.base;
	case TARGET_APT:
		return s->n_apt > 0;
	case TARGET_NONE:
		break;
	}
	return false;
}

static enum MHD_Result serve(struct request *rq, const struct target *t)
{
	if (!is_offered(&rq->m->sources, t->kind))
		return reply_not_found(rq);
	switch (t->kind) {
	case TARGET_PYTHON_PAGE:
		return serve_python_page(rq, t->name);
	case TARGET_PYTHON_FILE:
		return serve_python_file(rq, t);
	case TARGET_NPM_METADATA:
		return serve_npm_metadata(rq, t->name);
	case TARGET_NPM_TARBALL:
		return serve_npm_tarball(rq, t);
	case TARGET_NPM_OTHER:
		return redirect_npm(rq);
	case TARGET_APT:
		return serve_apt(rq);
	case TARGET_NONE:
		break;
	}
	return reply_not_found(rq);
}

static void *on_target(void *user, const char *text, struct MHD_Connection *conn)
{
	struct request *rq = xnew(struct request);

	*rq = (struct request){.m = user, .conn = conn, .text = join(text, "")};
	return rq;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *conn, const char *path,
	const char *method, const char *version, const char *data, size_t *len, void **state)
{
	struct request *rq = *state;
	enum MHD_Result ok;
	struct target t;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return rq->text[0] == '/' && rq->m->sources.npm.base
			? redirect_npm(rq) /* an audit, for instance */
			: reply_text(rq, MHD_HTTP_METHOD_NOT_ALLOWED, "");
	target_parse(rq->text, &t);
	ok = serve(rq, &t);
	target_done(&t);
	return ok;
}

static void on_completed(void *user, struct MHD_Connection *conn, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct request *rq = *state;

	atomic_fetch_add(&rq->m->room, rq->held);
	free(rq->text);
	free(rq);
	*state = NULL;
}

/* The sources' credentials are the daemon's, so nobody else is served. */
static enum MHD_Result on_accept(void *user, const struct sockaddr *addr, socklen_t len)
{
	struct mirror *m = user;
	struct sockaddr_in peer = {0};
	struct err err;
	uid_t uid;

	memcpy(&peer, addr, MIN(len, (socklen_t)sizeof(peer)));
	uid = peer_uid(&peer, m->port);
	if (uid == (uid_t)-1) {
		(void)err_set(&err, ERR_INTERNAL, -EACCES,
			"the kernel does not say who asks (it needs INET_TCP_DIAG)");
		warn(m, "", &err);
	}
	return uid == geteuid() || (geteuid() == 0 && uid == UID_NOBODY) ? MHD_YES : MHD_NO;
}

/* ---- start and stop ---- */

/*
 * uv's project commands write the index into the project's lock file, so these go to the source. In npm's lock files the source stands in
 * any case, for it replaces that host when it downloads. apt goes to other archives by itself.
 */
static json_t *make_settings(const struct sources *sources)
{
	json_t *settings = json_object();
	_cleanup_buf_ struct buf apt = buf_init(SETTINGS_BYTES_MAX);

	if (sources->pypi.base) {
		json_object_set_new(settings, "pip",
			json_string("[global]\nindex-url = " URL_OF_MIRROR
				    "pypi/simple/\ntrusted-host = " GUEST_NET_MIRROR
				    "\ntimeout = 300\n"));
		json_object_set_new(settings, "uv",
			json_string("[pip]\nindex-url = \"" URL_OF_MIRROR "pypi/simple/\"\n"));
	}
	if (sources->npm.base)
		json_object_set_new(settings, "npm",
			json_sprintf("registry=" URL_OF_MIRROR "\nreplace-registry-host=%s",
				sources->npm.host));
	for (size_t i = 0; i < sources->n_apt; i++)
		(void)buf_appendf(&apt, "Acquire::http::Proxy::%s \"" URL_OF_MIRROR "\";\n",
			sources->apt[i].host);
	if (apt.data)
		json_object_set_new(settings, "apt", json_string(apt.data));
	return settings;
}

static int listen_for_helpers(struct mirror *m, struct err *err)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const union MHD_DaemonInfo *info;

	m->mhd = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			MHD_USE_POLL | MHD_USE_ITC,
		0, on_accept, m, on_request, m,                  /* */
		MHD_OPTION_SOCK_ADDR, &address,                  /* */
		MHD_OPTION_URI_LOG_CALLBACK, on_target, m,       /* */
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, /* */
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)LIMIT_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_SECONDS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
	info = m->mhd ? MHD_get_daemon_info(m->mhd, MHD_DAEMON_INFO_BIND_PORT) : NULL;
	if (!info)
		return err_set(err, ERR_INTERNAL, -EIO, "can't listen for the package cache");
	m->port = info->port;
	return 0;
}

int mirror_start(const char *dir, uint64_t max_bytes, struct mirror **ret, struct err *err)
{
	struct mirror *m = xnew(struct mirror);
	pthread_condattr_t attr;
	int r = cache_open(dir, max_bytes, &m->cache, err);

	atomic_store(&m->room, (int64_t)(max_bytes / 2));
	(void)pthread_mutex_init(&m->parsing, NULL); /* these never fail on Linux */
	(void)pthread_mutex_init(&m->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&m->ended, &attr);
	(void)pthread_condattr_destroy(&attr);
	if (r == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		r = err_set(err, ERR_INTERNAL, -EIO, "can't initialise libcurl");
	if (r == 0)
		r = sources_find(&m->sources, err);
	if (r == 0)
		r = listen_for_helpers(m, err);
	if (r < 0) {
		mirror_stop(m);
		return r;
	}
	m->settings = make_settings(&m->sources);
	*ret = m;
	return 0;
}

struct mirror *mirror_stop(struct mirror *m)
{
	if (!m)
		return NULL;
	atomic_store(&m->stop, true);
	if (m->mhd)
		MHD_stop_daemon(m->mhd);
	cache_close(m->cache);
	sources_done(&m->sources);
	json_decref(m->settings);
	pthread_mutex_destroy(&m->parsing);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->ended);
	free(m);
	return NULL;
}

uint16_t mirror_port(const struct mirror *m)
{
	return m->port;
}

const json_t *mirror_settings(const struct mirror *m)
{
	return m->settings;
}
