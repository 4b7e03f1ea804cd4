/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this host gets its packages, as templates/host_config.py finds it: pip's index, npm's registry, apt's archives.
 *
 * Things are fetched from below the URLs that the host's own settings lead to, and from nowhere else: whatever an index says, the daemon
 * can't be made to ask somebody else.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SOURCES_APT_MAX = 64 };

/* Borrowed from the root of struct sources. */
struct source {
	const char *
		base; /* its URL, without credentials, with a '/' at the end; NULL where the host has none */
	const char *host;     /* name */
	const char *path;     /* "/simple/" */
	const char *user;     /* for what lies below serves[0], or NULL */
	const char *password; /* likewise */
	const json_t *serves; /* URLs below which it has things: its own host's first */
};

struct sources {
	json_t *root; /* owned */
	struct source pypi, npm;
	struct source apt[SOURCES_APT_MAX];
	size_t n_apt;
};

/* Asks host_config.py. */
int sources_find(struct sources *ret, struct err *err);
/* What it printed: takes the reference, also when it fails. */
int sources_read(json_t *root, struct sources *ret, struct err *err);
void sources_done(struct sources *s);

/* Whether it has what lies at that URL; `own`: and would be sent the credentials. */
bool source_serves(const struct source *s, const char *url);
bool source_owns(const struct source *s, const char *url);

/* The absolute URL of a link in a document that lies at `at`, normalised, without credentials and fragment, to be freed; or NULL. */
char *source_resolve(const char *at, const char *link);
