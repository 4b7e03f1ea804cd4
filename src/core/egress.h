/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox: its policy as the API has it, and the helper process that keeps it (src/egress).
 *
 * A policy is an object:
 *
 *	{"egress": "internet" | "none" | {"allow": [RULE…], "deny": [RULE…]}, "bytes_per_second": N}
 *
 * `egress` is "internet" where it is left out: all that is public. `allow` makes it a list of what may be reached, `deny` takes from
 * that or from the internet. Rules are those of proto/egress_policy.h.
 *
 * A helper starts as its machine sends something, and lives as long as that, through daemons: each connects to its socket in the sandbox's
 * folder.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "engine/engine.h"
#include "link/hub.h"

/* What the daemon has for all sandboxes. Borrowed. */
struct egress_host {
	/* Its rules, with commas in between; or NULL. */
	const char *allow;
	const char *deny;
	/* Its package cache (src/mirror), and what makes a guest use it (`packages` of api/link.md); 0 and NULL: it has none. */
	uint16_t mirror_port;
	const json_t *packages;
};

/* ERR_INVALID where it is no such object; of a sandbox's own. */
int egress_check(const json_t *policy, struct err *err);
/* The same of the daemon's rules. */
int egress_check_host(const struct egress_host *host, struct err *err);

/* Whether there is any way out. */
bool egress_is_open(const json_t *policy);

/* Whether it may use the daemon's package cache: it has no rules of its own, which would be about the sources. */
bool egress_has_mirror(const struct egress_host *host, const json_t *policy);

/* What a helper refused; called in the hub's thread. `more` such events were left out before this one. */
struct egress_denial {
	const char *protocol, *address;
	int port;
	const char *name; /* or NULL */
	const char *why;
	int64_t more;
};

struct egress_callbacks {
	void (*on_denied)(const struct egress_denial *denial, void *user);
	void (*on_ended)(void *user); /* the helper has gone; once */
	void *user;
};

struct egress;

/* The way out of a machine: its helper starts as it sends its first frame. `host` and `vm` are borrowed. */
int egress_start(struct link_hub *hub, const struct egress_host *host, struct vm *vm,
	const json_t *policy, const struct egress_callbacks *callbacks, struct egress **ret,
	struct err *err);
/* Finds the one that an earlier daemon started; -ENOENT, -ECONNREFUSED when there is none. */
int egress_adopt(struct link_hub *hub, const struct egress_host *host, struct vm *vm,
	const json_t *policy, const struct egress_callbacks *callbacks, struct egress **ret,
	struct err *err);

/* Lets go of it; `end`: and ends it, unless its machine's end does. The callbacks run no more. NULL is fine; returns NULL. */
struct egress *egress_free(struct egress *e, bool end);

/* From now on; connections that it does not allow are reset. */
int egress_set_policy(struct egress *e, const json_t *policy, struct err *err);

/* {"bytes_out","bytes_in","connections","denied","dropped"} since it was started: a new reference. */
int egress_stats(struct egress *e, json_t **ret, struct err *err);
