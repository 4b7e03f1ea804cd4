/* SPDX-License-Identifier: Apache-2.0 */
/* A digest over texts, numbers and files. */
#include "bake/digest.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"

enum { FILE_BYTES_MAX = 64 << 20 };

void digest_init(struct digest *d)
{
	(void)crypto_generichash_init(&d->state, NULL, 0, DIGEST_BYTES); /* only fails on bad sizes */
}

void digest_number(struct digest *d, uint64_t n)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(n >> 8 * i);
	(void)crypto_generichash_update(&d->state, bytes, sizeof(bytes));
}

static void add_bytes(struct digest *d, const void *data, size_t len)
{
	digest_number(d, len);
	(void)crypto_generichash_update(&d->state, data, len);
}

void digest_text(struct digest *d, const char *text)
{
	add_bytes(d, text, strlen(text));
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool ignored(const FTSENT *e)
{
	return e->fts_level > 0 && (strcmp(e->fts_name, "__pycache__") == 0 || e->fts_name[0] == '.');
}

static int add_file(struct digest *d, const FTSENT *e, struct err *err)
{
	_cleanup_free_ char *data = NULL;
	size_t len;
	int r = fs_read(e->fts_accpath, FILE_BYTES_MAX, &data, &len, err);

	if (r < 0)
		return r;
	digest_text(d, e->fts_name);
	digest_number(d, (uint64_t)e->fts_level << 1 | ((e->fts_statp->st_mode & 0100) != 0));
	add_bytes(d, data, len);
	return 0;
}

int digest_tree(struct digest *d, const char *path, struct err *err)
{
	char *const roots[] = {(char *)(uintptr_t)path, NULL}; /* only read */
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	FTSENT *e;
	int r = 0;

	if (!fts)
		return err_set_errno(err, -errno, "can't read %s", path);
	while (r == 0 && (e = fts_read(fts))) {
		if (ignored(e))
			(void)fts_set(fts, e, FTS_SKIP);
		else if (e->fts_info == FTS_F)
			r = add_file(d, e, err);
		else if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR || e->fts_info == FTS_NS)
			r = err_set_errno(err, -e->fts_errno, "can't read %s", e->fts_path);
	}
	(void)fts_close(fts);
	return r;
}

void digest_final(struct digest *d, char ret[DIGEST_TEXT_SIZE])
{
	uint8_t hash[DIGEST_BYTES];

	(void)crypto_generichash_final(&d->state, hash, sizeof(hash));
	str_hex(ret, hash, sizeof(hash));
}
