/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648, section 4: the standard alphabet, with padding). Pure functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Characters of the encoding of n bytes, without the NUL. */
#define BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_LENGTH(len) characters and a NUL. */
void base64_encode(char *dst, const void *src, size_t len);

/*
 * Decodes text[0..len) into dst[0..size). 0 and *ret_len, -EINVAL where the text is not the
 * canonical encoding of anything, -EMSGSIZE where dst is too small.
 */
int base64_decode(const char *text, size_t len, void *dst, size_t size, size_t *ret_len);
