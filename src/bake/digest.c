/* SPDX-License-Identifier: Apache-2.0 */
/* A digest over texts, numbers and files. */
#include "bake/digest.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"

enum { FILE_BYTES_MAX = 64 << 20 };

void digest_init(struct digest *d)
{
	/* Only fails on bad sizes. */
	(void)crypto_generichash_init(&d->state, NULL, 0, DIGEST_BYTES);
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
	return e->fts_level > 0 &&
		(strcmp(e->fts_name, "__pycache__") == 0 || e->fts_name[0] == '.');
}

/* What an entry is: name, place and type. */
static void add_entry(struct digest *d, const FTSENT *e)
{
	digest_text(d, e->fts_name);
	digest_number(d, (uint64_t)e->fts_level);
	digest_number(d, e->fts_statp->st_mode & (S_IFMT | S_IXUSR));
}

static int add_file(struct digest *d, const FTSENT *e, struct err *err)
{
	_cleanup_free_ char *data = NULL;
	size_t len;
	int r = fs_read(e->fts_accpath, FILE_BYTES_MAX, &data, &len, err);

	if (r < 0)
		return r;
	add_entry(d, e);
	add_bytes(d, data, len);
	return 0;
}

static int add_link(struct digest *d, const FTSENT *e, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlink(e->fts_accpath, target, sizeof(target));

	if (n < 0)
		return err_set_errno(err, -errno, "can't read %s", e->fts_path);
	add_entry(d, e);
	add_bytes(d, target, (size_t)n);
	return 0;
}

static int add(struct digest *d, const FTSENT *e, struct err *err)
{
	switch (e->fts_info) {
	case FTS_F:
		return add_file(d, e, err);
	case FTS_SL:
		return add_link(d, e, err);
	case FTS_D:
		if (e->fts_level > 0) /* where the tree lies makes no difference */
			add_entry(d, e);
		return 0;
	case FTS_ERR:
	case FTS_DNR:
	case FTS_NS:
		return err_set_errno(err, -e->fts_errno, "can't read %s", e->fts_path);
	default:
		return 0; /* a folder for the second time; sockets and the like, which nothing uses */
	}
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
		else
			r = add(d, e, err);
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
