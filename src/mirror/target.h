/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox asks of the mirror, by the target of its request. No I/O.
 *
 *	/pypi/simple/NAME/                 a project's page (PEP 503, 691)
 *	/pypi/files/NAME/SHA256/FILE       a file of it, or its metadata: FILE.metadata
 *	http://HOST/…                      apt, for which the mirror is a proxy
 *	/NAME, /@SCOPE/NAME                npm's metadata of a package
 *	/…/NAME/-/FILE                     its tarball
 *
 * npm has the root for itself, for it takes the tarballs of its registry's host from the root of whatever stands in for that.
 */
#pragma once

#include "base/url.h"

enum target_kind {
	TARGET_NONE,
	TARGET_PYTHON_PAGE,
	TARGET_PYTHON_FILE,
	TARGET_APT,
	TARGET_NPM_METADATA,
	TARGET_NPM_TARBALL,
	TARGET_NPM_OTHER, /* whatever else a registry has */
};

/* To be freed by target_done(). Names have letters, digits and "-_.+~!" only, and don't begin with a '.'. */
struct target {
	enum target_kind kind;
	struct url url;   /* the parts of the target; but for apt */
	char *name;       /* owned; of the project, or of npm's package with its scope */
	const char *hash; /* SHA-256 in hex */
	const char *file;
};

/* The target as it stands in the request. */
void target_parse(const char *text, struct target *ret);
void target_done(struct target *t);

/* The target of a Python file, to be freed; NULL where it has a name that target_parse() does not take. */
char *target_of_file(const char *name, const char *hash, const char *file);
