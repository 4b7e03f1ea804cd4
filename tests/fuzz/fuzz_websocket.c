/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a hostile peer: the first byte says which end we are, and in which pieces the rest comes. The same is heard
 * whatever the pieces; text is text and within its bound; no more goes out than came in.
 */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "proto/websocket.h"

enum { TEXT_MAX = 256 };

struct heard {
	struct buf all;
};

static void on_text(void *user, const char *text, size_t len)
{
	struct heard *h = user;

	assert(len <= TEXT_MAX && text[len] == '\0' && str_is_utf8(text, len));
	if (buf_append(&h->all, text, len) < 0 || buf_append(&h->all, "|", 1) < 0)
		abort();
}

static void on_bytes(void *user, const void *data, size_t len)
{
	struct heard *h = user;

	if (buf_append(&h->all, data, len) < 0)
		abort();
}

static void feed(enum websocket_role role, size_t piece, const uint8_t *data, size_t size,
	struct heard *h)
{
	static const struct websocket_ops ops = {.on_text = on_text, .on_bytes = on_bytes};
	struct websocket *ws = websocket_new(role, TEXT_MAX, &ops, h);

	for (size_t at = 0; at < size; at += MIN(piece, size - at))
		websocket_feed(ws, data + at, MIN(piece, size - at));
	/* A close has a reason of ours, and a mask. */
	assert(websocket_out(ws)->len <= size + 8 + WEBSOCKET_REASON_MAX);
	assert(!websocket_over(ws) || websocket_closing(ws));
	assert(str_is_utf8(websocket_peer_reason(ws), strlen(websocket_peer_reason(ws))));
	websocket_free(ws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum websocket_role role = size && (data[0] & 1) ? WEBSOCKET_CLIENT : WEBSOCKET_SERVER;
	size_t piece = size ? 1 + (data[0] >> 1) : 1;
	struct heard cut = {buf_init(2 * size + 1)}, whole = {buf_init(2 * size + 1)};

	if (size) {
		feed(role, piece, data + 1, size - 1, &cut);
		feed(role, size, data + 1, size - 1, &whole);
	}
	assert(cut.all.len == whole.all.len &&
		(!cut.all.len || memcmp(cut.all.data, whole.all.data, cut.all.len) == 0));
	buf_done(&cut.all);
	buf_done(&whole.all);
	return 0;
}
