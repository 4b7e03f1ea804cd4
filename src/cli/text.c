/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people and shells: formatting, cleaning what a server sent, widths, quoting. */
#include "cli/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

char *text_format(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	return text;
}

/* Embeddings, overrides and isolates make a line read differently from what it is. */
static bool turns_direction(wchar_t c)
{
	return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/* The character at the beginning, of *ret_n bytes; 0 where there is none. */
static wchar_t decode(const char *s, size_t len, size_t *ret_n)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t n = mbrtowc(&c, s, len, &state);

	if (n > len) { /* (size_t)-1 or -2 */
		n = 1;
		c = 0;
	}
	*ret_n = n;
	return c;
}

static bool is_harmless(wchar_t c)
{
	return c != 0 && !iswcntrl((wint_t)c) && !turns_direction(c);
}

char *text_clean(const char *s)
{
	size_t len = strlen(s), n;
	char *out = xcalloc(len + 1, 1), *end = out;

	for (size_t i = 0; i < len; i += n) {
		if (is_harmless(decode(s + i, len - i, &n)))
			end = mempcpy(end, s + i, n);
		else
			*end++ = '?';
	}
	return out;
}

/* Outside of its strings JSON has no other character that controls anything than the newline, and in them it has none. */
void text_put_json(FILE *f, const char *json)
{
	size_t len = strlen(json), n;

	for (size_t i = 0; i < len; i += n) {
		wchar_t c = decode(json + i, len - i, &n);

		if (c == '\n' || is_harmless(c))
			(void)fwrite(json + i, n, 1, f); /* a failure stays with the stream */
		else
			(void)fprintf(f, "\\u%04x", c ? (unsigned int)c : 0xFFFDU);
	}
}

size_t text_width(const char *clean)
{
	size_t size = strlen(clean) + 1;
	_cleanup_free_ wchar_t *wide = xcalloc(size, sizeof(*wide));
	size_t n = mbstowcs(wide, clean, size);
	int width;

	if (n == (size_t)-1)
		return size - 1;
	width = wcswidth(wide, n);
	return width < 0 ? n : (size_t)width;
}

static bool is_plain_word(const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_./:=@%+,";

	return *s && s[strspn(s, plain)] == '\0';
}

char *text_shell_quote(const char *s)
{
	char *out, *end;

	if (is_plain_word(s))
		return text_format("%s", s);
	end = out = xcalloc(strlen(s) + 1, 4); /* a quote becomes four characters; two around */
	*end++ = '\'';
	for (; *s; s++) {
		if (*s == '\'')
			end = stpcpy(end, "'\\''");
		else
			*end++ = *s;
	}
	*end = '\'';
	return out;
}

char *text_bytes(uint64_t n)
{
	static const char units[] = "kMGTPE";
	double value = (double)n;
	size_t unit = 0;

	if (n < 1000)
		return text_format("%" PRIu64 " B", n);
	for (value /= 1000; value >= 999.95; value /= 1000)
		unit++;
	return text_format("%.1f %cB", value, units[unit]);
}

char *text_seconds(int64_t s)
{
	if (s < 120)
		return text_format("%" PRId64 "s", s);
	if (s < 2 * 3600)
		return text_format("%" PRId64 "m", s / 60);
	if (s < 2 * 86400)
		return text_format("%" PRId64 "h", s / 3600);
	return text_format("%" PRId64 "d", s / 86400);
}
