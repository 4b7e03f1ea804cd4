/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a template: root file system, initramfs, first boot, snapshot.
 *
 * Everything is made in a hidden folder beside the result and renamed when it is whole: an interrupted
 * build leaves what was there before. A template that was made of the same (by a digest of all that goes into it)
 * is not built again.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct build_options {
	const char *template_dir;    /* where baked templates live */
	const char *definition;      /* a name among those that ship, or a folder (with a '/') */
	const char *engine;          /* its name, or "auto" */
	const char *mirror;          /* Debian mirror for build-rootfs, or NULL */
	const char *security_mirror; /* the mirror of its security updates, or NULL */
	bool force;                  /* build even when it is up to date */
};

/* Builds it, and first the one that it stands on. Steps go to stderr. */
int build_template(const struct build_options *options, struct err *err);
