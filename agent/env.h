/* SPDX-License-Identifier: Apache-2.0 */
/* Environments of the programs that the agent starts. JSON arguments are borrowed and not changed:
 * jansson's iteration takes no const. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/macros.h"

struct env {
	char **vars; /* owned, "KEY=value", NULL at the end; NULL while nothing was set */
	size_t count;
};

void env_done(struct env *env);
#define _cleanup_env_ CLEANUP(env_done)

void env_set(struct env *env, const char *key, const char *value);

/* KEY=value lines as in /etc/environment: comments, "export" and quotes are understood; other
 * lines are skipped. */
void env_set_text(struct env *env, char *text);

/* All members of a JSON object that are text; NULL is an empty object. */
void env_set_json(struct env *env, json_t *object);

/*
 * The layers in order, the later one wins: built-in defaults, `environment_path` (when it exists),
 * `sandbox`, `request`. `home` and `user` are the account's.
 */
void env_build(struct env *env, const char *environment_path, const char *home, const char *user,
	json_t *sandbox, json_t *request);

/* The environment as a JSON object. */
json_t *env_to_json(const struct env *env);

/* NULL, or what is wrong with a request's `env`: it must be an object of text, with keys that
 * are not empty and hold no '='. */
const char *env_check_json(json_t *object);
