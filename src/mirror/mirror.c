/* SPDX-License-Identifier: Apache-2.0 */
/* The listener of the package cache: who may ask, and its beginning and end. */
#include "mirror/mirror.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "mirror/mirror_internal.h"
#include "mirror/peer.h"
#include "proto/guest_net.h"

enum {
	IDLE_SECONDS = 60,
	CONNECTION_BYTES = 32 << 10, /* read and write buffers of one */
	STACK_BYTES = 1 << 20,       /* for jansson's deepest JSON, as in http/server.c */
	SETTINGS_BYTES_MAX = 64 << 10,
	UID_NOBODY = 65534, /* that helpers of a daemon of root's become */
};

#define URL_OF_MIRROR "http://" GUEST_NET_MIRROR "/"

/* ---- requests ---- */

static void *on_target(void *user, const char *text, struct MHD_Connection *conn)
{
	struct request *rq = xnew(struct request);

	*rq = (struct request){.m = user, .conn = conn, .text = xstrdup(text)};
	return rq;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *conn, const char *path,
	const char *method, const char *version, const char *data, size_t *len, void **state)
{
	struct request *rq = *state;
	enum MHD_Result ok;
	struct target t;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return mirror_serve_other(rq);
	target_parse(rq->text, &t);
	ok = mirror_serve(rq, &t);
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
		mirror_warn(m, "", &err);
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
