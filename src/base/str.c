/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: UTF-8 borders, safe display of hostile text, hex. */
#include "base/str.h"

#include <string.h>

#include "base/macros.h"

/*
 * Length of the character that starts at s, 0 where the bytes are no character, and -1 where they
 * are the valid beginning of one that is cut off by the end (RFC 3629, section 4).
 */
static int utf8_char(const unsigned char *s, size_t len)
{
	unsigned char lo = 0x80, hi = 0xBF;
	int n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xC2 && s[0] <= 0xDF)
		n = 2;
	else if (s[0] >= 0xE0 && s[0] <= 0xEF)
		n = 3;
	else if (s[0] >= 0xF0 && s[0] <= 0xF4)
		n = 4;
	else
		return 0;
	if (s[0] == 0xE0)
		lo = 0xA0;
	else if (s[0] == 0xED)
		hi = 0x9F;
	else if (s[0] == 0xF0)
		lo = 0x90;
	else if (s[0] == 0xF4)
		hi = 0x8F;
	for (int i = 1; i < n; i++) {
		if ((size_t)i >= len)
			return -1;
		if (s[i] < lo || s[i] > hi)
			return 0;
		lo = 0x80;
		hi = 0xBF;
	}
	return n;
}

size_t str_utf8_floor(const char *s, size_t len)
{
	/* Only the last three bytes can be a cut character. */
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		if (utf8_char((const unsigned char *)s + len - back, back) == -1)
			return len - back;
	}
	return len;
}

bool str_is_utf8(const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		int n = utf8_char((const unsigned char *)s + i, len - i);

		if (n <= 0)
			return false;
		i += (size_t)n;
	}
	return true;
}

char *str_utf8_replace(char *dst, const char *src, size_t len)
{
	char *out = dst;

	for (size_t i = 0; i < len;) {
		int n = utf8_char((const unsigned char *)src + i, len - i);

		if (n > 0) {
			memcpy(out, src + i, (size_t)n);
			out += n;
			i += (size_t)n;
		} else {
			memcpy(out, "\xEF\xBF\xBD", 3);
			out += 3;
			i++;
		}
	}
	*out = '\0';
	return dst;
}

/* C0, DEL, and C1 (U+0080 to U+009F), which terminals obey too. */
static bool is_control(const unsigned char *c)
{
	return c[0] < 0x20 || c[0] == 0x7F || (c[0] == 0xC2 && c[1] < 0xA0);
}

char *str_printable(char *dst, size_t size, const char *src, size_t len)
{
	size_t out = 0;

	assert(size >= 8);
	for (size_t i = 0; i < len;) {
		int n = utf8_char((const unsigned char *)src + i, len - i);
		bool plain = n > 0 && !is_control((const unsigned char *)src + i);

		if (n < 1)
			n = 1;
		if (out + (size_t)n > size - 4) {
			memcpy(dst + out, "...", 3);
			out += 3;
			break;
		}
		if (plain)
			memcpy(dst + out, src + i, (size_t)n);
		else
			memset(dst + out, '?', (size_t)n);
		out += (size_t)n;
		i += (size_t)n;
	}
	dst[out] = '\0';
	return dst;
}

void str_hex(char *dst, const uint8_t *src, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*dst++ = digits[src[i] >> 4];
		*dst++ = digits[src[i] & 15];
	}
	*dst = '\0';
}

bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}
