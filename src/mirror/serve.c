/* SPDX-License-Identifier: Apache-2.0 */
/* What the package cache answers: Python's pages and files, npm's, and what apt asks of it as a proxy. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "mirror/document.h"
#include "mirror/index.h"
#include "mirror/mirror_internal.h"

enum { FRESH_SECONDS = 300 }; /* a document */

static const char python_type[] = "application/vnd.pypi.simple.v1+json";
/* Of the two forms that a registry has, the one for all purposes. */
static const char npm_type[] = "application/json";

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

/* What mirror_obtain() returned for it. */
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

static char *join(const char *a, const char *b)
{
	char *s;

	if (asprintf(&s, "%s%s", a, b) < 0)
		abort();
	return s;
}

static struct item python_page(const struct mirror *m, const char *project)
{
	_cleanup_free_ char *link = join(project, "/");
	struct item it = mirror_item(&m->sources.pypi, join(m->sources.pypi.base, link));

	it.fetch.accept = python_type;
	it.project = project;
	return it;
}

static enum MHD_Result serve_python_page(struct request *rq, const char *project)
{
	_cleanup_item_ struct item page = python_page(rq->m, project);

	return reply_item(rq, &page, mirror_obtain(rq, &page, FRESH_SECONDS));
}

/* Finds the file in its document: its digest, and of a Python file the URL. */
static int find_file(struct request *rq, struct item *document, int64_t max_age_s,
	const struct target *t, struct item *file)
{
	int r = mirror_obtain(rq, document, max_age_s);
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
	return r == 0 ? mirror_obtain(rq, file, 0) : r;
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
	it = mirror_item(&m->sources.npm, join(m->sources.npm.base, link));
	it.fetch.accept = npm_type;
	return it;
}

static enum MHD_Result serve_npm_metadata(struct request *rq, const char *package)
{
	_cleanup_item_ struct item it = npm_metadata(rq->m, package);

	return reply_item(rq, &it, mirror_obtain(rq, &it, FRESH_SECONDS));
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
	file = mirror_item(s, steal_ptr(&url));
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

/* Nothing but apt itself knows whether a file is right that has no hash in its name. */
static bool is_wanted_anew(const struct request *rq)
{
	const char *value = MHD_lookup_connection_value(rq->conn, MHD_HEADER_KIND,
		MHD_HTTP_HEADER_CACHE_CONTROL);

	return value && strcasestr(value, "no-cache");
}

static enum MHD_Result serve_apt(struct request *rq)
{
	const struct source *s = NULL;
	const char *since;
	char *url = find_archive(rq->m, rq->text, &s);
	_cleanup_item_ struct item it = mirror_item(s, url);
	int r;

	if (!url)
		return reply_text(rq, MHD_HTTP_FORBIDDEN,
			"This is none of the archives that the host's own apt uses.\n");
	if (!is_lasting(url, &it.fetch.digest)) {
		it.key = NULL;
		since = MHD_lookup_connection_value(rq->conn, MHD_HEADER_KIND, "If-Modified-Since");
		it.fetch.since_s = since ? curl_getdate(since, NULL) : 0;
	}
	it.anew = is_wanted_anew(rq);
	r = mirror_obtain(rq, &it, 0);
	if (r == 0 || r == -ENOENT || it.fetch.redirect)
		return reply_item(rq, &it, r);
	if (it.fetch.status == MHD_HTTP_NOT_MODIFIED)
		return reply_text(rq, MHD_HTTP_NOT_MODIFIED, "");
	return reply_text(rq, MHD_HTTP_BAD_GATEWAY, "The archive is not reached.\n");
}

/* ---- all of it ---- */

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

enum MHD_Result mirror_serve(struct request *rq, const struct target *t)
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

enum MHD_Result mirror_serve_other(struct request *rq)
{
	if (rq->text[0] == '/' && rq->m->sources.npm.base)
		return redirect_npm(rq); /* an audit, for instance */
	return reply_text(rq, MHD_HTTP_METHOD_NOT_ALLOWED, "");
}
