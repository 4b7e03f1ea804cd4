/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of server-sent events: no cut of the bytes may change what comes out. */
#include <stdint.h>
#include <string.h>

#include "cli/sse.h"

static int on_event(const struct sse_event *event, void *user)
{
	return buf_appendf(user, "%s:%zu:%zu;", event->name, event->len, strlen(event->data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_sse_ struct sse whole = sse_init(1 << 12), cut = sse_init(1 << 12);
	_cleanup_buf_ struct buf a = buf_init(1 << 16), b = buf_init(1 << 16);
	const char *bytes = (const char *)data;
	int r = sse_feed(&whole, bytes, size, on_event, &a), s = 0;

	for (size_t i = 0; i < size && s == 0; i++)
		s = sse_feed(&cut, bytes + i, 1, on_event, &b);
	if (r != s || a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
		__builtin_trap();
	return 0;
}
