/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a route handler sees: the request, and the answer that it fills.
 *
 * A handler runs in the thread of its connection and reads from top to bottom; it may block. It
 * returns 0 with *resp filled by one of the http_resp_…() functions, or a negative errno with *err
 * filled, which becomes the error answer. -ECONNRESET means that the client is gone: nothing is
 * answered. Strings and JSON of the request are borrowed and live until the answer has been sent,
 * streamed bodies included.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/url.h"
#include "core/core.h"
#include "http/auth.h"
#include "http/headers.h"
#include "http/preview.h"

enum {
	HTTP_PARAMS_MAX = 2,
	HTTP_REQUEST_ID_SIZE = 65,
	HTTP_CLIENT_SIZE = 64,
};

struct MHD_Connection;
struct mcp_calls;
struct mcp_sessions;

/* What a buffered answer holds at most; more is cut and said so. */
struct http_limits {
	uint64_t output_bytes;  /* each of stdout and stderr */
	uint64_t results_bytes; /* all results of a cell */
};

struct http_stats {
	atomic_ullong answers[6]; /* so far, by the first digit of their status */
	atomic_uint websockets;   /* now */
};

struct http_req {
	struct core *core;                     /* borrowed */
	struct auth *auth;                     /* borrowed */
	struct http_stats *stats;              /* borrowed */
	const struct http_limits *limits;      /* borrowed */
	const struct preview_key *preview_key; /* borrowed */
	struct mcp_calls *mcp_calls;           /* borrowed */
	struct mcp_sessions *mcp_sessions;     /* borrowed */
	const char *method;
	char *target;       /* owned; as it came */
	struct buf headers; /* all of them, well-formed */
	struct url url;     /* of the target, or of the part of it that proxied.h says */
	size_t rest;        /* where in the target begins what is for a server in a sandbox */
	bool by_host;       /* all of it is: the host name says so */
	const char *params[HTTP_PARAMS_MAX]; /* the {…} of the route, in order */
	json_t *body;                        /* owned; an object, never NULL in a handler */
	struct sandbox *
		sandbox; /* a reference, for what http_req_sandbox() found; in use until the answer has
				  * been sent; NULL before */
	void *upload;    /* state of a streamed body, owned by its http_upload */
	int client_fd; /* borrowed: to notice that the client went away */
	char id[HTTP_REQUEST_ID_SIZE];
	struct MHD_Connection *conn; /* the server's own */
};

/* The value of a header, or NULL. */
const char *http_req_header(const struct http_req *req, const char *name);

/* "http", or "https" where somebody in front of us says so. */
const char *http_req_proto(const struct http_req *req);

/* The client's address, as text. */
void http_req_client(const struct http_req *req, char ret[HTTP_CLIENT_SIZE]);

/* The sandbox that the route names, a reference; it does not expire before the answer has been sent.
 * ERR_SANDBOX_NOT_FOUND. */
int http_req_sandbox(struct http_req *req, struct sandbox **ret, struct err *err);
/* The same for the sandbox of that id. */
int http_req_sandbox_of(struct http_req *req, const char *id, struct sandbox **ret,
	struct err *err);
/* The same for one that is known: it does not expire before the answer has been sent. */
void http_req_use(struct http_req *req, struct sandbox *sb);
/* The server's: ends the use of it. */
void http_req_release(struct http_req *req);

/* A body that is taken piece by piece instead of as JSON. The handler runs after the last one. */
struct http_upload {
	/* Before the first piece; may answer early. Sets req->upload. */
	int (*begin)(struct http_req *req, struct err *err);
	/* May block: the client waits meanwhile. After a failure no more pieces come. */
	int (*chunk)(struct http_req *req, const void *data, size_t len, struct err *err);
	void (*free)(void *upload);
};

/* A body that is made while it is sent. */
struct http_stream {
	/* Waits for bytes: over 0 of them, 0 at the end, or a negative errno to break the
	 * connection, which tells the client that the body is not whole. */
	ssize_t (*read)(void *user, char *dst, size_t max);
	void (*free)(void *user);
};

/* What becomes of the connection after a 101: bytes in another protocol. */
struct http_upgrade {
	/* In the connection's thread; returns when it is to be closed. The descriptor does not block. `early` is what the client
	 * has sent already. */
	void (*run)(void *user, int fd, const void *early, size_t len);
	void (*free)(void *user);
	/* run() says good-bye to its client itself when it can read no more; else it is just cut off where the server stops. */
	bool says_goodbye;
};

/* Of the daemon's own answers: PANDASTACK_VERSION. Clients read it to tell that they are of another. */
#define HTTP_VERSION_HEADER "Pandastack-Version"

struct http_resp {
	int status;
	const char *type; /* NULL: no body */
	char *data;       /* owned */
	size_t len;
	const struct http_stream *stream;   /* NULL: the body is `data` */
	void *stream_user;                  /* owned through stream->free */
	int64_t stream_len;                 /* -1: unknown */
	const struct http_upgrade *upgrade; /* of a 101; NULL: none */
	void *upgrade_user;                 /* owned through upgrade->free */
	struct buf headers; /* headers.h; in place of all of ours but X-Request-Id */
	json_t *details;    /* owned; "details" of an error answer */
	const char *allow;  /* of a 405 */
};

/* These take the reference or the object, also on failure. */
int http_resp_json(struct http_resp *resp, int status, json_t *json, struct err *err);
int http_resp_text(struct http_resp *resp, int status, const char *type, struct buf *text,
	struct err *err);
int http_resp_empty(struct http_resp *resp, int status);
int http_resp_stream(struct http_resp *resp, const char *type, int64_t len,
	const struct http_stream *stream, void *user);

/* 101; `headers` has Upgrade, and more perhaps (a buffer of headers.h, which is taken). */
int http_resp_upgrade(struct http_resp *resp, struct buf *headers,
	const struct http_upgrade *upgrade, void *user);

/* Turns the failure into an answer; resp->details is taken up. */
void http_resp_error(struct http_resp *resp, const struct http_req *req, const struct err *err);

void http_resp_done(struct http_resp *resp);
