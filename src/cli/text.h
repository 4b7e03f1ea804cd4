/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people and shells: formatting, cleaning what a server sent, widths, quoting.
 *
 * Results are owned by the caller; the program ends when there is no memory for them. Characters
 * are decoded by the locale, which cli_main() makes a UTF-8 one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"

char *text_format(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* A copy for one line of a terminal: control characters, invalid bytes and the characters that
 * turn the direction of writing around become '?'. */
char *text_clean(const char *s);

/* Writes JSON to a terminal: such characters, but for newlines, as escapes of JSON. */
void text_put_json(FILE *f, const char *json);

/* Columns that a cleaned text takes. */
size_t text_width(const char *clean);

/* One word for a POSIX shell. */
char *text_shell_quote(const char *s);

/* "17 B", "3.4 MB" (powers of 1000). */
char *text_bytes(uint64_t n);

/* "12s", "5m", "3h", "2d". */
char *text_seconds(int64_t s);
