/* SPDX-License-Identifier: Apache-2.0 */
/* Strings from outside: what is made printable, replaced or cut is always UTF-8 within its bounds. */
#include <string.h>

#include "base/base64.h"
#include "base/macros.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *)data;
	_cleanup_free_ char *replaced = xcalloc(1, 3 * size + 1),
			    *coded = xcalloc(1, BASE64_LENGTH(size) + 1);
	_cleanup_free_ char *back = xcalloc(1, size + 1);
	size_t keep = str_utf8_floor(s, size), len;
	char shown[64];

	str_printable(shown, sizeof(shown), s, size);
	str_utf8_replace(replaced, s, size);
	if (!str_is_utf8(shown, strlen(shown)) || !str_is_utf8(replaced, strlen(replaced)))
		__builtin_trap();
	if (keep > size || size - keep > 3 || (str_is_utf8(s, size) && keep != size))
		__builtin_trap();
	base64_encode(coded, data, size);
	if (base64_decode(coded, strlen(coded), back, size, &len) < 0 || len != size ||
		memcmp(back, data, size) != 0)
		__builtin_trap();
	if (base64_decode(s, size, back, size, &len) == 0) {
		base64_encode(coded, back, len); /* only the canonical text was accepted */
		if (strlen(coded) != size || memcmp(coded, s, size) != 0)
			__builtin_trap();
	}
	return 0;
}
