/* SPDX-License-Identifier: Apache-2.0 */
/* Running a cell of code in a session of a sandbox, for the routes that do (h_repl.c). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

/* Everything is borrowed. */
struct cell_request {
	const char *session;
	const char *code;
	size_t code_len;
	int64_t timeout_ms; /* what the client asked for */
	bool ansi;
	bool allow_stdin;
	bool detach;
	json_t *env;
};

/* Member `language` of a request, by its own name where it is an alias; *ret stays where it is missing. */
int cell_language(const json_t *body, const char **ret, struct err *err);

/* Makes a session of that id; `body` may have its `cwd` and `env`. ERR_CONFLICT where there is one. */
int cell_session(struct sandbox *sb, const char *id, const char *language, const json_t *body,
	int client_fd, struct err *err);

/* Starts it, with its code on the way. */
int cell_open(struct sandbox *sb, const struct cell_request *c, int client_fd,
	struct link_stream **ret, struct err *err);
