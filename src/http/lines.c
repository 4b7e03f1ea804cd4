/* SPDX-License-Identifier: Apache-2.0 */
/* Output in lines. */
#include "http/lines.h"

#include <string.h>

#include "base/str.h"

enum { SLICE_BYTES = 4096 }; /* decoded at once */

struct lines lines_init(void)
{
	return (struct lines){.text = buf_init(LINES_BYTES_MAX + UTF8_STREAM_MAX(SLICE_BYTES))};
}

void lines_done(struct lines *l)
{
	buf_done(&l->text);
}

/* The length of the first line, or of as much of it as may be kept; 0 where it is not whole. */
static size_t first_whole(const char *text, size_t len)
{
	const char *newline = memchr(text, '\n', MIN(len, (size_t)LINES_BYTES_MAX));

	if (newline)
		return (size_t)(newline - text) + 1;
	return len < LINES_BYTES_MAX ? 0 : str_utf8_floor(text, LINES_BYTES_MAX);
}

static int take_lines(struct lines *l, lines_fn *fn, void *user)
{
	size_t done = 0, n;
	int r = 0;

	while (r == 0 && (n = first_whole(l->text.data + done, l->text.len - done)) > 0) {
		r = fn(l->text.data + done, n, user);
		done += n;
	}
	buf_consume(&l->text, done);
	return r;
}

int lines_push(struct lines *l, const void *data, size_t len, lines_fn *fn, void *user)
{
	const char *p = data;
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = MIN(len, (size_t)SLICE_BYTES);

		r = utf8_stream_push(&l->utf8, p, n, &l->text);
		if (r == 0 && l->text.len)
			r = take_lines(l, fn, user);
		p += n;
		len -= n;
	}
	return r;
}

int lines_end(struct lines *l, lines_fn *fn, void *user)
{
	int r = utf8_stream_end(&l->utf8, &l->text);

	if (r == 0 && l->text.len)
		r = fn(l->text.data, l->text.len, user);
	buf_clear(&l->text);
	return r;
}

size_t lines_tail(const char *text, size_t len, uint64_t n)
{
	size_t start = len;

	while (n > 0 && start > 0) {
		const char *newline = memrchr(text, '\n', start - 1);

		start = newline ? (size_t)(newline - text) + 1 : 0;
		n--;
	}
	return start;
}

size_t lines_first(const char *text, size_t len)
{
	size_t n = first_whole(text, len);

	return n ? n : len;
}
