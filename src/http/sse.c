/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events on their way to a client. */
#include "http/sse.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"

/* Makes room where all was sent. */
static void begin(struct sse *s)
{
	if (!sse_empty(s))
		return;
	buf_clear(&s->out);
	s->sent = 0;
}

int sse_emit(struct sse *s, const char *event, json_t *data, struct err *err)
{
	size_t start;
	bool ok;

	begin(s);
	start = s->out.len;
	ok = data && buf_appendf(&s->out, "event: %s\ndata: ", event) == 0 &&
		json_dump_callback(data, buf_sink, &s->out, JSON_COMPACT | JSON_ENSURE_ASCII) ==
			0 &&
		buf_append(&s->out, "\n\n", 2) == 0;
	json_decref(data);
	if (ok)
		return 0;
	s->out.len = start;
	return err_set(err, ERR_TOO_LARGE, -EMSGSIZE, "an event is too large to be sent");
}

int sse_ping(struct sse *s)
{
	begin(s);
	return buf_append(&s->out, ": ping\n\n", 8);
}

size_t sse_take(struct sse *s, char *dst, size_t max)
{
	size_t n = MIN(max, s->out.len - s->sent);

	if (n == 0)
		return 0;
	memcpy(dst, s->out.data + s->sent, n);
	s->sent += n;
	if (sse_empty(s) && s->out.cap > LIMIT_FRAME_BYTES) {
		buf_done(&s->out); /* the client may pause for long */
		s->sent = 0;
	}
	return n;
}
