/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of a snapshot's import: as it comes, and as what it would unpack to, which the checksums hide else. */
#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "core/state_file.h"

enum { FILE_BYTES_MAX = 1 << 20 };

struct state {
	uint64_t sizes[_STATE_MEMBER_MAX], next[_STATE_MEMBER_MAX];
	int manifests;
};

static int on_manifest(const json_t *m, const uint64_t sizes[_STATE_MEMBER_MAX], void *user,
	struct err *err)
{
	struct state *s = user;

	s->manifests++;
	for (int i = 0; i < _STATE_MEMBER_MAX; i++)
		s->sizes[i] = sizes[i];
	return 0;
}

static int on_data(enum state_member m, uint64_t offset, const void *data, size_t len, void *user,
	struct err *err)
{
	struct state *s = user;

	if (s->manifests != 1 || len == 0 || offset < s->next[m] || offset + len > s->sizes[m])
		__builtin_trap();
	s->next[m] = offset + len;
	return 0;
}

static void read_it(const void *data, size_t size, size_t piece)
{
	static const struct state_reader_ops ops = {.manifest = on_manifest, .data = on_data};
	struct state s = {0};
	_cleanup_state_reader_ struct state_reader *r = state_reader_new(&ops, &s);
	int ret = 0;

	for (size_t at = 0; ret == 0 && at < size; at += piece)
		ret = state_reader_feed(r, (const char *)data + at, MIN(piece, size - at), NULL);
	if (ret == 0)
		ret = state_reader_end(r, NULL);
	if (ret != 0 && ret != -EBADMSG)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t bound = ZSTD_compressBound(size);
	_cleanup_free_ char *packed = malloc(bound);
	size_t len;

	if (!packed)
		abort();
	read_it(data, size, 7);
	len = ZSTD_compress(packed, bound, data, size, 1);
	if (!ZSTD_isError(len))
		read_it(packed, len, 1000);
	return 0;
}
