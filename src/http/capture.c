/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a command for a buffered answer: text up to a bound. */
#include "http/capture.h"

#include <inttypes.h>

#include "base/str.h"

enum {
	SLICE_BYTES = 4096, /* decoded at once: how far the text may overshoot before it is cut */
	NOTE_BYTES = 128,
};

struct capture capture_init(size_t max)
{
	return (struct capture){
		.max = max,
		.text = buf_init(max + UTF8_STREAM_MAX(SLICE_BYTES) + NOTE_BYTES),
	};
}

void capture_done(struct capture *c)
{
	buf_done(&c->text);
}

static void cut_if_over(struct capture *c, int r)
{
	if (r == 0 && c->text.len <= c->max)
		return;
	c->cut = true;
	if (c->text.len > c->max)
		c->text.len = str_utf8_floor(c->text.data, c->max);
}

void capture_push(struct capture *c, const void *data, size_t len)
{
	const char *p = data;

	c->total += len;
	while (len > 0 && !c->cut) {
		size_t n = MIN(len, (size_t)SLICE_BYTES);

		cut_if_over(c, utf8_stream_push(&c->utf8, p, n, &c->text));
		p += n;
		len -= n;
	}
}

void capture_clear(struct capture *c)
{
	buf_clear(&c->text);
	c->utf8 = (struct utf8_stream){0};
	c->total = 0;
	c->cut = false;
}

json_t *capture_finish(struct capture *c)
{
	if (!c->cut)
		cut_if_over(c, utf8_stream_end(&c->utf8, &c->text));
	if (c->cut)
		(void)buf_appendf(&c->text, "\n[cut: %" PRIu64 " bytes in all]\n", c->total);
	return json_stringn(c->text.data ? c->text.data : "", c->text.len);
}
