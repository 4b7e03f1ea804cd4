/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a JSON text holds, before it is parsed: a value costs up to 100 times its text in memory, so a bound on the text
 * alone is none.
 */
#pragma once

#include <stddef.h>

/* The separators and openings outside of its strings: at least half as many as its values, and in a list of plain ones as many. */
size_t json_count_values(const char *text, size_t len);
