/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the documents of indexes say about files: PEP 691 (a project of a Python index), and npm's metadata. No I/O.
 *
 * A document comes from somebody else, and may be any JSON. What it says counts for its own project alone, and only files of its source
 * that have a hash are found in it.
 */
#pragma once

#include <jansson.h>

#include "mirror/digest.h"
#include "mirror/source.h"

/*
 * Makes a project's page, which lies at `at`, lead to us: files that can be checked become "/pypi/files/NAME/SHA256/FILE", their
 * metadata (PEP 658) is said to be there where it can be checked, too; all else keeps its own address. Where such a file comes from
 * stands beside that, as "_source". -EBADMSG: it is no such page.
 */
int index_localize_page(json_t *page, const struct source *s, const char *at, const char *name);

/* The file of such an address, or its metadata, in that page: the URL, to be freed, and the digest. -ENOENT. */
int index_find_python(const json_t *page, const struct source *s, const char *hash,
	const char *file, char **ret_url, struct digest *ret);

/* The digest of the tarball at that URL in npm's metadata. -ENOENT. */
int index_find_npm(const json_t *metadata, const char *url, struct digest *ret);
