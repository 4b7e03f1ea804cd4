/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's API as one blocking call per request.
 *
 * An answer that is no success becomes an error of the answer's own code, with its message (made
 * safe for a terminal) and advice where there is some. One thread; client_send() may be called from
 * an on_signal callback, but not from on_data.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/term.h"

struct client;

/* Finds the daemon by config_load(); nothing is sent. From now on SIGPIPE is ignored. */
int client_new(struct client **ret, struct err *err);
struct client *client_free(struct client *client);
DEFINE_CLEANUP(struct client *, client_free)
#define _cleanup_client_ CLEANUP(client_freep)

/* The daemon's address, for messages. */
const char *client_api(const struct client *client);

/* From now on SIGINT, SIGTERM and SIGHUP are blocked, unless ignored, and end requests. */
int client_catch_signals(struct client *client, struct err *err);

/* A part of a successful answer; 0, or a negative errno (with *err) that ends the request. */
typedef int client_data_fn(const char *data, size_t len, void *user, struct err *err);

/* A caught signal arrived: 0 goes on; a negative errno ends the request with it. */
typedef int client_signal_fn(int signal, void *user);

struct client_request {
	const char *method;
	const char *path;    /* from "/" on, escaped */
	const json_t *body;  /* or NULL */
	const char *accept;  /* NULL: JSON */
	const char *session; /* Mcp-Session-Id, or NULL */
	int upload_fd;       /* the body, where `uploads` is set */
	bool uploads;
	int64_t upload_bytes;    /* -1: until the end of upload_fd */
	client_data_fn *on_data; /* NULL: the answer is JSON, for *ret */
	void *data_user;
	client_signal_fn *on_signal; /* NULL: a signal ends the request with -ECANCELED */
	void *signal_user;
	struct progress *progress; /* or NULL */
	int64_t timeout_ms;        /* for the whole request; 0: none */
};

/* *ret (owned by the caller; may be NULL) is the answer's JSON, or NULL where it has no body. */
int client_send(struct client *client, const struct client_request *request, json_t **ret,
	struct err *err);

/* A short request with JSON in and out; takes the reference of `body` (may be NULL). */
int client_json(struct client *client, const char *method, const char *path, json_t *body,
	json_t **ret, struct err *err);

/* Prints for --json, as jansson's flags say; on a terminal nothing of it controls that. */
int client_print_json(const json_t *value, size_t flags, struct err *err);

/* One component of a path or query; owned by the caller. */
char *client_escape(const char *s);
