/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: UTF-8 borders, safe display of hostile text, hex. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest n <= len at which s[0..n) does not end inside a UTF-8 character. Bytes that are not
 * UTF-8 at all count as whole. */
size_t str_utf8_floor(const char *s, size_t len);

/* True when s[0..len) is valid UTF-8 (RFC 3629: no surrogates, nothing over U+10FFFF). */
bool str_is_utf8(const char *s, size_t len);

/* Copies with U+FFFD for each byte that is not UTF-8, and a NUL; dst has room for 3 * len + 1. */
char *str_utf8_replace(char *dst, const char *src, size_t len);

/*
 * Copies hostile bytes for a log or an error message: control characters and invalid UTF-8 become
 * '?', the result is cut to fit size (with "..." at its end) and NUL-terminated. Returns dst.
 */
char *str_printable(char *dst, size_t size, const char *src, size_t len);

/* Writes 2 * len lower-case hex digits and a NUL. */
void str_hex(char *dst, const uint8_t *src, size_t len);

bool str_starts_with(const char *s, const char *prefix);
