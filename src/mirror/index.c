/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the documents of indexes. */
#include "mirror/index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mirror/target.h"

/* Keys with an underline are an index's own (PEP 691). */
static const char source_key[] = "_source";
static const char metadata_suffix[] = ".metadata";
/* By the name of the standard, and by the one that it had before. */
static const char *const metadata_keys[] = {"core-metadata", "dist-info-metadata"};

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static const char *sha256_of(const json_t *hashes)
{
	const char *hex = text_of(hashes, "sha256");
	struct digest digest;

	return hex && digest_from_hex(hex, &digest) == 0 ? hex : NULL;
}

static const char *metadata_sha256_of(const json_t *file)
{
	const json_t *metadata = json_object_get(file, metadata_keys[0]);

	return sha256_of(metadata ? metadata : json_object_get(file, metadata_keys[1]));
}

/* ---- Python ---- */

static int localize_file(json_t *file, const struct source *s, const char *at, const char *name)
{
	const char *link = text_of(file, "url");
	const char *hash = sha256_of(json_object_get(file, "hashes"));
	_cleanup_free_ char *url = link ? source_resolve(at, link) : NULL;
	_cleanup_free_ char *local = NULL;

	if (!url)
		return -EBADMSG;
	(void)json_object_del(file, source_key); /* it has none as a rule */
	if (hash && source_serves(s, url))
		local = target_of_file(name, hash, text_of(file, "filename"));
	for (size_t i = 0; i < ARRAY_SIZE(metadata_keys); i++) {
		if (local && !metadata_sha256_of(file))
			(void)json_object_del(file, metadata_keys[i]); /* or it has no such */
	}
	if (local && json_object_set_new(file, source_key, json_string(url)) < 0)
		return -EBADMSG;
	return json_object_set_new(file, "url", json_string(local ? local : url));
}

int index_localize_page(json_t *page, const struct source *s, const char *at, const char *name)
{
	json_t *files = json_object_get(page, "files"), *file;
	size_t i;

	if (!json_is_array(files))
		return -EBADMSG;
	json_array_foreach(files, i, file) {
		if (localize_file(file, s, at, name) < 0)
			return -EBADMSG;
	}
	return 0;
}

/* The hash of what is asked for, where the entry has it: the file, or its metadata. */
static const char *find_hash(const json_t *entry, const char *hash, const char *file)
{
	const char *own = sha256_of(json_object_get(entry, "hashes"));
	const char *filename = text_of(entry, "filename");
	size_t len = filename ? strlen(filename) : 0;

	if (!own || !filename || strcmp(own, hash) != 0 || strncmp(file, filename, len) != 0)
		return NULL;
	if (!file[len])
		return own;
	return strcmp(file + len, metadata_suffix) == 0 ? metadata_sha256_of(entry) : NULL;
}

int index_find_python(const json_t *page, const struct source *s, const char *hash,
	const char *file, char **ret_url, struct digest *ret)
{
	const json_t *files = json_object_get(page, "files"), *entry;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)files, i, entry) {
		const char *url = text_of(entry, source_key);
		const char *hex = url ? find_hash(entry, hash, file) : NULL;

		if (!hex || !source_serves(s, url) || digest_from_hex(hex, ret) < 0)
			continue;
		/* What follows the name of the file follows its URL, too. */
		if (asprintf(ret_url, "%s%s", url, file + strlen(text_of(entry, "filename"))) < 0)
			abort();
		return 0;
	}
	return -ENOENT;
}

/* ---- npm ---- */

int index_find_npm(const json_t *metadata, const char *url, struct digest *ret)
{
	const char *version;
	json_t *entry;

	json_object_foreach(json_object_get(metadata, "versions"), version, entry) {
		const json_t *dist = json_object_get(entry, "dist");
		const char *tarball = text_of(dist, "tarball"), *text = text_of(dist, "integrity");

		if (tarball && text && strcmp(tarball, url) == 0)
			return digest_from_integrity(text, ret) < 0 ? -ENOENT : 0;
	}
	return -ENOENT;
}
