/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: libmicrohttpd behind the table of routes.
 *
 * Theory of operation
 * -------------------
 * An `exchange` is one request and its answer. The library calls, all in the connection's thread:
 *	on_target()    the request line was read: the exchange begins
 *	on_request()   1. the headers were read: form, route, key, length of the body are checked
 *	               2. for each piece of the body: kept as JSON text, or given to the route's
 *upload
 *	               3. all was read: the handler runs, the answer is queued
 *	on_upgrade()   a 101 was sent: the connection belongs to the answer's `upgrade` until that returns
 *	on_completed() the answer was sent, or the connection broke: the exchange ends
 *
 * A failure of step 1 is answered at once when a body is on its way that would cost something to
 * read. The rest of that body is then drained for a while before the connection is closed: closing
 *it over unread bytes sends a reset, which takes the answer away from the client. A failure later
 *is answered when the body has been read and dropped; the library cannot answer in between.
 *
 * The library's own timeout closes connections that are silent for IDLE_SECONDS between requests or
 * in the middle of one. The time that a handler takes does not count. One that has not shown a key is ended sooner where
 * there are many (waiting.h).
 */
#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "http/json_in.h"
#include "http/listen.h"
#include "http/mcp_calls.h"
#include "http/mcp_sessions.h"
#include "http/proxied.h"
#include "http/route.h"
#include "http/upgrades.h"
#include "http/waiting.h"
#include "http/ws_handshake.h"
#include "version.h"

enum {
	IDLE_SECONDS = 75, /* clients keep connections for 60 s */
	/* A client may pause in the middle of a stream for so long. */
	STREAM_IDLE_SECONDS = 3600,
	/* Read and write buffers of one: the headers of a request, and then of its answer. */
	CONNECTION_BYTES = 128 << 10,
	STREAM_BLOCK_BYTES = 64 << 10,
	/* jansson's deepest JSON (2,048 levels) takes up to 700 KiB; pages that are not used cost
	   none. */
	STACK_BYTES = 1 << 20,
	DROP_BYTES_MAX =
		64 << 10, /* a refused body up to here is read; a longer one is not waited for */
	LINGER_MS = 5000,
	SPARE_CONNECTIONS = 64, /* kept for who comes, unless those with a key take them */
};

struct http_server {
	struct MHD_Daemon *mhd;                /* owned */
	struct core *core;                     /* borrowed */
	struct auth *auth;                     /* borrowed */
	const struct http_limits *limits;      /* borrowed */
	const struct preview_key *preview_key; /* borrowed */
	struct http_stats stats;
	struct upgrades upgrades;
	struct waiting waiting;
	struct mcp_calls mcp_calls;
	struct mcp_sessions mcp_sessions;
	char address[HTTP_ADDRESS_SIZE];
};

struct exchange {
	struct http_server *server; /* borrowed */
	struct http_req req;
	const struct route *route;  /* NULL until found */
	struct waiting_one *caller; /* borrowed from the connection; NULL until it is admitted */
	struct buf body;
	struct http_resp resp;
	struct err err;
	char allow[ROUTE_ALLOW_SIZE];
	int64_t began_us;
	bool begun;    /* step 1 is done */
	bool unclear;  /* where this request ends: nothing behind it may be read */
	bool failed;   /* `err` is to be answered */
	bool answered; /* the answer is queued */
	bool linger;   /* ... while a body was still to come */
};

/* ---- the exchange ---- */

static int fail(struct exchange *x, int r)
{
	x->failed = true;
	return r;
}

static void set_request_id(struct http_req *req)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *given = http_req_header(req, "X-Request-Id");
	uint8_t random[12];
	size_t len = given ? strlen(given) : 0;

	if (len > 0 && len < sizeof(req->id) && strspn(given, safe) == len) {
		memcpy(req->id, given, len + 1);
		return;
	}
	randombytes_buf(random, sizeof(random));
	str_hex(req->id, random, sizeof(random));
}

static int check_key(const struct http_req *req, struct err *err)
{
	const char *header = http_req_header(req, "Authorization"), *key = NULL;
	_cleanup_free_ char *protocol = NULL;

	if (!header) {
		protocol = ws_handshake_key(&req->headers);
		key = protocol ? protocol : url_query(&req->url, "access_token");
	} else if (strncasecmp(header, "Bearer ", 7) == 0) {
		key = header + 7 + strspn(header + 7, " ");
	}
	if (!key)
		return err_set(err, ERR_UNAUTHORIZED, -EACCES,
			"unauthorized: send the API key as \"Authorization: Bearer KEY\"%s",
			header ? " (an entry for this host in ~/.netrc makes some clients send Basic)"
			       : "");
	if (!auth_check(req->auth, key))
		return err_set(err, ERR_UNAUTHORIZED, -EACCES,
			"unauthorized: this server does not know that API key");
	return 0;
}

/* The announced length; 0 where there is no body or it comes in chunks. */
static uint64_t content_length(const struct http_req *req)
{
	const char *text = http_req_header(req, "Content-Length");
	uint64_t len = 0;

	if (text)
		(void)parse_u64(text, 0, UINT64_MAX,
			&len); /* the library refused what is no number */
	return len;
}

struct header_reader {
	struct buf *list; /* borrowed */
	int r;            /* of the last one */
};

static enum MHD_Result on_header(void *user, enum MHD_ValueKind kind, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	struct header_reader *reader = user;

	reader->r = headers_add(reader->list, name, name_len, value ? value : "", value_len);
	return reader->r == 0 ? MHD_YES : MHD_NO;
}

/*
 * Reads the headers, and refuses those that somebody before or behind us might read in another way than the library does:
 * requests could be hidden in what one of us takes for a body (RFC 9112, section 11.2).
 */
static int read_headers(struct http_req *req, struct err *err)
{
	struct header_reader reader = {.list = &req->headers};
	unsigned int lengths = 0, encodings = 0;
	struct http_header h;

	(void)MHD_get_connection_values_n(req->conn, MHD_HEADER_KIND, on_header, &reader);
	if (reader.r < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"a header is malformed: its name is no token, or its value has a control "
			"character");
	for (size_t pos = 0; headers_next(&req->headers, &pos, &h);) {
		lengths += strcasecmp(h.name, "Content-Length") == 0;
		encodings += strcasecmp(h.name, "Transfer-Encoding") == 0;
	}
	if (lengths + encodings > 1 ||
		(encodings &&
			strcasecmp(headers_get(&req->headers, "Transfer-Encoding"), "chunked") !=
				0))
		return err_set(err, ERR_INVALID, -EINVAL,
			"the length of the body must be given once, by Content-Length or by "
			"Transfer-Encoding: chunked");
	return 0;
}

/* Which route the target, or the host's name, means. */
static int read_target(struct http_req *req, struct err *err)
{
	struct proxied p;
	int r;

	if (!proxied_find(http_req_header(req, "Host"), req->target, &p))
		return url_parse(req->target, &req->url, err);
	req->rest = p.prefix_len;
	req->by_host = p.by_host;
	r = url_parse(p.route, &req->url, err);
	free(p.route);
	return r;
}

static int err_body_too_large(struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
		"the body is too large: at most %zu bytes are taken; upload files with PUT .../fs",
		LIMIT_JSON_BODY_BYTES);
}

/* Step 1: may this request be served? */
static int admit(struct exchange *x)
{
	struct http_req *req = &x->req;
	int r = read_headers(req, &x->err);

	x->unclear = r < 0;
	set_request_id(req);
	if (r == 0)
		r = read_target(req, &x->err);
	if (r == 0)
		r = route_find(req->method, &req->url, &x->route, req->params, x->allow, &x->err);
	if (r < 0)
		return fail(x, r);
	if (!x->route->public) {
		r = check_key(req, &x->err);
		if (r < 0)
			return fail(x, r);
	}
	if (!x->route->handler)
		return fail(x,
			err_set(&x->err, ERR_UNSUPPORTED, -ENOSYS, "not supported by this server"));
	if (x->route->upload)
		r = x->route->upload->begin(req, &x->err);
	else if (content_length(req) > LIMIT_JSON_BODY_BYTES)
		r = err_body_too_large(&x->err);
	return r < 0 ? fail(x, r) : 0;
}

/* Step 2. */
static int take_body(struct exchange *x, const char *data, size_t len)
{
	int r;

	if (x->failed)
		return 0;
	if (x->route->upload) {
		r = x->route->upload->chunk(&x->req, data, len, &x->err);
		return r < 0 ? fail(x, r) : 0;
	}
	r = buf_append(&x->body, data, len);
	if (r == -EMSGSIZE)
		return fail(x, err_body_too_large(&x->err));
	if (r < 0)
		return fail(x, err_set(&x->err, ERR_INTERNAL, r, "out of memory"));
	return 0;
}

/* Step 3. */
static int run_handler(struct exchange *x)
{
	int r = 0;

	if (x->failed)
		return 0;
	if (!x->route->upload)
		r = json_in_parse(x->body.data, x->body.len, &x->req.body, &x->err);
	buf_done(&x->body);
	if (r == 0)
		r = x->route->handler(&x->req, &x->resp, &x->err);
	return r < 0 ? fail(x, r) : 0;
}

static void exchange_free(struct exchange *x)
{
	http_resp_done(&x->resp);
	if (x->route && x->route->upload)
		x->route->upload->free(x->req.upload);
	http_req_release(&x->req);
	json_decref(x->req.body);
	buf_done(&x->body);
	url_done(&x->req.url);
	buf_done(&x->req.headers);
	free(x->req.target);
	free(x);
}

/* ---- answers ---- */

static ssize_t on_read(void *user, uint64_t pos, char *dst, size_t max)
{
	struct exchange *x = user;
	ssize_t n = x->resp.stream->read(x->resp.stream_user, dst, max);

	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	return n < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

/* Says that we are done, and reads on until the client is too. */
static void drain(int fd)
{
	int64_t deadline = clock_mono_ms() + LINGER_MS, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char scratch[8192];

	(void)shutdown(fd, SHUT_WR); /* fails only where the client is gone */
	while ((left = deadline - clock_mono_ms()) > 0 && poll(&p, 1, (int)left) > 0) {
		if (recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT) <= 0)
			return;
	}
}

static void on_upgrade(void *user, struct MHD_Connection *conn, void *state, const char *early,
	size_t len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
	struct exchange *x = user;
	struct upgraded one;

	if (upgrades_enter(&x->server->upgrades, &one, fd,
		    x->resp.upgrade->says_goodbye ? SHUT_RD : SHUT_RDWR)) {
		x->resp.upgrade->run(x->resp.upgrade_user, fd, early, len);
		if (x->resp.upgrade->says_goodbye)
			drain(fd);
		upgrades_leave(&x->server->upgrades, &one);
	}
	(void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE); /* the first call on it */
}

static struct MHD_Response *make_response(struct exchange *x)
{
	struct http_resp *resp = &x->resp;

	if (resp->upgrade)
		return MHD_create_response_for_upgrade(on_upgrade, x);
	if (resp->stream)
		return MHD_create_response_from_callback(resp->stream_len < 0
				? MHD_SIZE_UNKNOWN
				: (uint64_t)resp->stream_len,
			STREAM_BLOCK_BYTES, on_read, x, NULL);
	return MHD_create_response_from_buffer(resp->len, steal_ptr(&resp->data),
		MHD_RESPMEM_MUST_FREE);
}

/* A header that is left out for want of memory leaves an answer that still can be understood. */
static void add_headers(struct exchange *x, struct MHD_Response *response)
{
	struct http_header h;

	(void)MHD_add_response_header(response, "X-Request-Id", x->req.id);
	for (size_t pos = 0; headers_next(&x->resp.headers, &pos, &h);)
		(void)MHD_add_response_header(response, h.name, h.value);
	if (x->resp.headers.max)
		return;
	if (x->resp.type)
		(void)MHD_add_response_header(response, "Content-Type", x->resp.type);
	(void)MHD_add_response_header(response, "Cache-Control", "no-cache");
	(void)MHD_add_response_header(response, HTTP_VERSION_HEADER, PANDASTACK_VERSION);
	if (x->resp.stream)
		(void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
	if (x->resp.status == 405)
		(void)MHD_add_response_header(response, "Allow", x->allow);
	if (x->resp.status == 401)
		(void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
}

static void log_answer(const struct exchange *x)
{
	int64_t ms = (clock_mono_us() - x->began_us) / 1000;
	const char *path = x->route ? x->route->pattern : "?";

	/* What a server in a sandbox answers, or fails to, is its own affair. */
	if (x->failed && x->resp.status >= 500 && x->resp.status != 501 && x->resp.status != 502)
		log_warn("request failed", LOG_STR("req", x->req.id),
			LOG_STR("method", x->req.method), LOG_STR("route", path),
			LOG_STR("sandbox", x->req.params[0]), LOG_INT("status", x->resp.status),
			LOG_INT("ms", ms), LOG_STR("error", err_msg(&x->err)));
	else
		log_debug("request", LOG_STR("req", x->req.id), LOG_STR("method", x->req.method),
			LOG_STR("route", path), LOG_STR("sandbox", x->req.params[0]),
			LOG_INT("status", x->resp.status), LOG_INT("ms", ms));
}

static enum MHD_Result answer(struct exchange *x)
{
	struct MHD_Response *response;
	enum MHD_Result ok;

	if (x->failed && x->err.os == -ECONNRESET)
		return MHD_NO; /* nobody reads an answer */
	if (x->failed)
		http_resp_error(&x->resp, &x->req, &x->err);
	log_answer(x);
	response = make_response(x);
	if (!response)
		return MHD_NO;
	add_headers(x, response);
	if (x->resp.stream)
		(void)MHD_set_connection_option(x->req.conn, MHD_CONNECTION_OPTION_TIMEOUT,
			(unsigned int)STREAM_IDLE_SECONDS);
	ok = MHD_queue_response(x->req.conn, (unsigned int)x->resp.status, response);
	MHD_destroy_response(response);
	x->answered = ok == MHD_YES;
	if (x->resp.status >= 100 && x->resp.status < 600)
		atomic_fetch_add(&x->req.stats->answers[x->resp.status / 100], 1);
	return ok;
}

/* ---- what the library calls ---- */

static void *on_target(void *user, const char *target, struct MHD_Connection *conn)
{
	struct http_server *server = user;
	struct exchange *x = xnew(struct exchange);

	x->began_us = clock_mono_us();
	x->server = server;
	x->req.core = server->core;
	x->req.auth = server->auth;
	x->req.limits = server->limits;
	x->req.preview_key = server->preview_key;
	x->req.stats = &server->stats;
	x->req.mcp_calls = &server->mcp_calls;
	x->req.mcp_sessions = &server->mcp_sessions;
	x->req.conn = conn;
	x->req.target = xstrdup(target);
	x->req.headers = buf_init(CONNECTION_BYTES);
	x->body = buf_init(LIMIT_JSON_BODY_BYTES);
	return x;
}

/* What takes uploads from everybody has asked by itself who it is (access.h). */
static void welcome(struct exchange *x)
{
	if (x->route->public && !x->route->upload)
		return;
	x->caller = MHD_get_connection_info(x->req.conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			    ->socket_context;
	waiting_admit(&x->server->waiting, x->caller);
}

static enum MHD_Result begin(struct exchange *x, const char *method)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(x->req.conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	x->begun = true;
	x->req.method = method;
	x->req.client_fd = info->connect_fd;
	(void)admit(x); /* x->failed says it */
	if (!x->failed) {
		welcome(x);
		return MHD_YES;
	}
	if (x->unclear || http_req_header(&x->req, "Expect") ||
		http_req_header(&x->req, "Transfer-Encoding") ||
		content_length(&x->req) > DROP_BYTES_MAX) {
		x->linger = true;
		return answer(x);
	}
	return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *conn, const char *path,
	const char *method, const char *version, const char *data, size_t *len, void **state)
{
	struct exchange *x = *state;

	if (!x->begun)
		return begin(x, method);
	if (*len > 0) {
		int r = take_body(x, data, *len);

		*len = 0;
		return r == -ECONNRESET ? MHD_NO : MHD_YES;
	}
	(void)run_handler(x); /* x->failed says it */
	return answer(x);
}

static void on_completed(void *user, struct MHD_Connection *conn, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct exchange *x = *state;

	if (!x)
		return;
	if (x->linger && x->answered && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		drain(x->req.client_fd);
	if (x->resp.stream)
		(void)MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT,
			(unsigned int)IDLE_SECONDS);
	if (x->caller && !x->resp.upgrade)
		waiting_again(&x->server->waiting, x->caller);
	exchange_free(x);
	*state = NULL;
}

static void on_connection(void *user, struct MHD_Connection *conn, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = user;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*context = waiting_enter(&server->waiting, info->connect_fd);
	else
		*context = waiting_leave(&server->waiting, *context);
}

static void on_panic(void *user, const char *file, unsigned int line, const char *reason)
{
	log_error("libmicrohttpd failed", LOG_STR("file", file), LOG_INT("line", line),
		LOG_STR("reason", reason));
	abort();
}

/* ---- start and stop ---- */

int http_server_start(const char *listen, struct core *core, struct auth *auth,
	const struct preview_key *preview_key, const struct http_limits *limits,
	struct http_server **ret, struct err *err)
{
	_cleanup_free_ struct http_server *server = xnew(struct http_server);
	_cleanup_close_ int fd = -1;
	int r = listen_open(listen, &fd, err);

	if (r == 0)
		r = listen_address(fd, server->address, sizeof(server->address), err);
	if (r < 0)
		return r;
	server->core = core;
	server->auth = auth;
	server->limits = limits;
	server->preview_key = preview_key;
	upgrades_init(&server->upgrades);
	waiting_init(&server->waiting, LIMIT_CONNECTIONS - SPARE_CONNECTIONS);
	mcp_calls_init(&server->mcp_calls);
	mcp_sessions_init(&server->mcp_sessions);
	MHD_set_panic_func(on_panic, NULL);
	server->mhd =
		MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
				MHD_USE_POLL | MHD_USE_ITC | MHD_ALLOW_UPGRADE,
			0, NULL, NULL, on_request, NULL,                 /* */
			MHD_OPTION_LISTEN_SOCKET, fd,                    /* */
			MHD_OPTION_URI_LOG_CALLBACK, on_target, server,  /* */
			MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, /* */
			MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned int)LIMIT_CONNECTIONS,
			MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_SECONDS,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
			MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
	if (!server->mhd)
		return err_set(err, ERR_INTERNAL, -EIO, "can't start the HTTP server");
	(void)steal_fd(&fd); /* the library closes it */
	*ret = steal_ptr(&server);
	return 0;
}

const char *http_server_address(const struct http_server *server)
{
	return server->address;
}

struct http_server *http_server_stop(struct http_server *server)
{
	if (!server)
		return NULL;
	upgrades_stop(&server->upgrades);
	MHD_stop_daemon(server->mhd);
	upgrades_done(&server->upgrades);
	waiting_done(&server->waiting);
	mcp_sessions_done(&server->mcp_sessions);
	mcp_calls_done(&server->mcp_calls);
	free(server);
	return NULL;
}
