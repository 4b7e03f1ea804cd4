/* SPDX-License-Identifier: Apache-2.0 */
/* What several commands do with sandboxes and snapshots. */
#pragma once

#include <stdbool.h>

#include "cli/client.h"

#define SANDBOX_DEFAULT_TEMPLATE "code-interpreter"

/* Creates from the body of POST /v1/sandboxes (the reference is taken); *ret is its answer.
 * on_signal as in struct client_request. */
int sandbox_create(struct client *client, json_t *body, client_signal_fn *on_signal, void *user,
	json_t **ret, struct err *err);

/* Deletes, whatever signal arrives meanwhile. */
int sandbox_delete(struct client *client, const char *id, struct err *err);

/* "/v1/sandboxes/<id><suffix>", to be freed. */
char *sandbox_path(const char *id, const char *suffix);

/* The one sandbox whose id is, or begins with, `prefix`: *ret is to be freed. */
int sandbox_resolve(struct client *client, const char *prefix, char **ret, struct err *err);

/* A client, and "/v1/sandboxes/<id><suffix>" of that sandbox; both are to be freed. */
int sandbox_reach(const char *prefix, const char *suffix, struct client **ret, char **ret_path,
	struct err *err);

/* The pure part of sandbox_resolve(): `list` is the answer of GET /v1/sandboxes, *ret is borrowed from it. */
int sandbox_match(const json_t *list, const char *prefix, const char **ret, struct err *err);

/* The same for snapshots. */
int snapshot_resolve(struct client *client, const char *prefix, char **ret, struct err *err);
int snapshot_match(const json_t *list, const char *prefix, const char **ret, struct err *err);

/* "ID:PATH" as scp reads it: a colon before any slash. *ret_id (to be freed) and *ret_path (the
 * argument's own) are untouched where it is a local path. */
bool sandbox_split_path(const char *arg, char **ret_id, const char **ret_path);
