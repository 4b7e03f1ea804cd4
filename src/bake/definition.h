/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template is made of: templates/<name>/template.json and the files beside it.
 *
 * docs/templates.md describes the keys. Unknown keys are errors: a misspelt one must not be ignored.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

struct definition {
	char *dir;         /* owned; the definition's folder */
	char *name;        /* owned */
	char *description; /* owned */
	char *from;        /* owned; name of the template below, or NULL */
	json_t *network; /* owned; what its sandboxes get that ask for none (core/egress.h), or NULL */
	char *kernel;    /* owned; language of the kernel to be warm in the snapshot, or NULL */
	unsigned int cpus;
	uint64_t memory_bytes;
	uint64_t disk_bytes;
};

/* Reads <dir>/template.json. */
int definition_load(const char *dir, struct definition **ret, struct err *err);
/* The same from text; `dir` is only remembered. The text need not be trusted. */
int definition_parse(const char *text, size_t len, const char *dir, struct definition **ret,
	struct err *err);
struct definition *definition_free(struct definition *d);
DEFINE_CLEANUP(struct definition *, definition_free)
#define _cleanup_definition_ CLEANUP(definition_freep)
