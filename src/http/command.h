/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command in a sandbox, for the routes that do (h_exec.c). */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "core/core.h"
#include "http/capture.h"
#include "http/http.h"

/* Everything is borrowed. `cmd` is for a shell; without it `argv` counts, up to a NULL or its end.
 */
struct command {
	const char *cmd;
	const char *argv[3];
	const char *cwd;
	const char *user;
	const char *input; /* its stdin; NULL: at its end */
	bool background;   /* it goes on by itself: h_processes.c */
	bool open_stdin;   /* of one in the background: it is written later */
	json_t *env;
	int64_t timeout_ms; /* 0: none */
};

/* Reads a client's request. */
int command_read(const json_t *body, struct command *ret, struct err *err);

/* What the guest is asked for. NULL without memory. */
json_t *command_request(const struct command *c);

/* What the guest has not found is the request's `cwd` or `user`, not the sandbox. */
void command_blame_request(int r, struct err *err);

/* The facts of a guest's answer about an end that clients get: exit_code, signal, duration_ms. */
json_t *command_exit_facts(const json_t *ok);

/* Whether its time was over by the guest's answer; and the error that a client gets then. */
bool command_timed_out(const json_t *ok);
int command_err_timeout(int64_t timeout_ms, struct err *err);

/* h_processes.c: starts it in the background and answers with what it is. */
int process_start(struct http_req *req, struct http_resp *resp, struct sandbox *sb,
	const struct command *c, struct err *err);

/* Starts it, with its whole input on the way. */
int command_open(struct sandbox *sb, const struct command *c, int client_fd,
	struct link_stream **ret, struct err *err);

/*
 * Runs it to its end, or until the client of `req` goes away. *ret is the answer of the API (owned by the caller). After a failure, a
 * timeout included, *ret_details may be set: what came until then. -ECONNRESET when the client went
 * away.
 */
int command_run(const struct http_req *req, struct sandbox *sb, const struct command *c,
	json_t **ret, json_t **ret_details, struct err *err);

/* How long the guest has, from now on, to end it at its time limit and to answer; clock_mono_ms(). */
int64_t command_deadline(const struct command *c);

/* The answer of the API from its stdout and stderr, which end, and the guest's answer. */
json_t *command_answer(struct capture out[2], const json_t *ok);
