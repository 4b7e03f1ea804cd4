/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648, section 4). */
#include "base/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *dst, const void *src, size_t len)
{
	const uint8_t *p = src;

	for (; len >= 3; len -= 3, p += 3) {
		*dst++ = alphabet[p[0] >> 2];
		*dst++ = alphabet[(p[0] & 3) << 4 | p[1] >> 4];
		*dst++ = alphabet[(p[1] & 15) << 2 | p[2] >> 6];
		*dst++ = alphabet[p[2] & 63];
	}
	if (len > 0) {
		uint8_t second = len == 2 ? p[1] : 0;

		*dst++ = alphabet[p[0] >> 2];
		*dst++ = alphabet[(p[0] & 3) << 4 | second >> 4];
		*dst++ = len == 2 ? alphabet[(second & 15) << 2] : '=';
		*dst++ = '=';
	}
	*dst = '\0';
}

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t len, void *dst, size_t size, size_t *ret_len)
{
	uint8_t *out = dst;
	size_t pad = 0, n, used = 0;
	uint32_t bits = 0;

	if (len % 4 != 0)
		return -EINVAL;
	while (pad < 2 && pad < len && text[len - 1 - pad] == '=')
		pad++;
	n = len / 4 * 3 - pad;
	if (n > size)
		return -EMSGSIZE;
	for (size_t i = 0; i < len - pad; i++) {
		int d = digit(text[i]);

		if (d < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)d;
		if (i % 4 != 0)
			out[used++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	if (pad && bits & ((1U << pad * 2) - 1))
		return -EINVAL; /* bits that no encoder sets */
	*ret_len = n;
	return 0;
}
