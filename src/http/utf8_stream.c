/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that arrive in pieces to valid UTF-8 (RFC 3629, section 4). */
#include "http/utf8_stream.h"

#include <stdbool.h>

static int append_replacement(struct buf *dst)
{
	return buf_append(dst, "\xEF\xBF\xBD", 3);
}

/* Begins a character of several bytes; false when c begins none. */
static bool begin_char(struct utf8_stream *u, uint8_t c)
{
	if (c < 0xC2 || c > 0xF4)
		return false;
	u->missing = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
	u->lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
	u->hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
	u->held[0] = c;
	u->n_held = 1;
	return true;
}

/* Takes the next byte of a character that has begun. */
static int continue_char(struct utf8_stream *u, uint8_t c, struct buf *dst)
{
	u->held[u->n_held++] = c;
	u->lo = 0x80;
	u->hi = 0xBF;
	if (--u->missing > 0)
		return 0;
	return buf_append(dst, u->held, u->n_held);
}

int utf8_stream_push(struct utf8_stream *u, const void *data, size_t len, struct buf *dst)
{
	const uint8_t *s = data;
	size_t i = 0;
	int r = 0;

	while (r == 0 && i < len) {
		size_t start = i;

		if (u->missing) {
			if (s[i] >= u->lo && s[i] <= u->hi) {
				r = continue_char(u, s[i++], dst);
			} else {
				u->missing = 0;
				r = append_replacement(dst);
			}
			continue;
		}
		while (i < len && s[i] < 0x80)
			i++;
		if (i > start)
			r = buf_append(dst, s + start, i - start);
		else if (!begin_char(u, s[i++]))
			r = append_replacement(dst);
	}
	return r;
}

int utf8_stream_end(struct utf8_stream *u, struct buf *dst)
{
	if (!u->missing)
		return 0;
	u->missing = 0;
	return append_replacement(dst);
}
