/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to UTF-8: always valid, never longer than promised, whatever the cuts; text stays as it is. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "http/utf8_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf whole = buf_init(UTF8_STREAM_MAX(size)),
				 cut = buf_init(UTF8_STREAM_MAX(size));
	struct utf8_stream a = {0}, b = {0};
	int r = utf8_stream_push(&a, data, size, &whole);

	for (size_t i = 0; r == 0 && i < size; i++)
		r = utf8_stream_push(&b, data + i, 1, &cut);
	if (r < 0 || utf8_stream_end(&a, &whole) < 0 || utf8_stream_end(&b, &cut) < 0)
		__builtin_trap();
	if (whole.len != cut.len || (cut.len && memcmp(whole.data, cut.data, cut.len) != 0))
		__builtin_trap();
	if (!str_is_utf8(whole.data ? whole.data : "", whole.len))
		__builtin_trap();
	if (str_is_utf8((const char *)data, size) &&
		(whole.len != size || (size && memcmp(whole.data, data, size) != 0)))
		__builtin_trap();
	return 0;
}
