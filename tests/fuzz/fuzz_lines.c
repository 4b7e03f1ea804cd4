/* SPDX-License-Identifier: Apache-2.0 */
/* Output in lines: the lines together are the text, however the bytes come; each is UTF-8 and ends where a line does. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "http/lines.h"

static int add(const char *line, size_t len, void *user)
{
	const char *newline = memchr(line, '\n', len);

	if (len == 0 || len > LINES_BYTES_MAX || !str_is_utf8(line, len) ||
		(newline && newline != line + len - 1))
		__builtin_trap();
	return buf_append(user, line, len);
}

static void split(const uint8_t *data, size_t size, size_t step, struct buf *ret)
{
	struct lines l = lines_init();

	for (size_t at = 0; at < size; at += step) {
		if (lines_push(&l, data + at, MIN(step, size - at), add, ret) < 0)
			__builtin_trap();
	}
	if (lines_end(&l, add, ret) < 0)
		__builtin_trap();
	lines_done(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf whole = buf_init(UTF8_STREAM_MAX(size));
	_cleanup_buf_ struct buf pieces = buf_init(UTF8_STREAM_MAX(size));
	size_t tail;

	split(data, size, size + 1, &whole);
	split(data, size, size ? 1 + data[0] % 7U : 1, &pieces);
	if (whole.len != pieces.len ||
		(whole.len && memcmp(whole.data, pieces.data, whole.len) != 0))
		__builtin_trap();
	if (!whole.len)
		return 0;
	tail = lines_tail(whole.data, whole.len, 2);
	if (tail > whole.len || (tail > 0 && whole.data[tail - 1] != '\n'))
		__builtin_trap();
	return 0;
}
