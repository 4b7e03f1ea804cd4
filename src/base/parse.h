/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to numbers, strictly: the whole string must be the number.
 *
 * All return 0, -EINVAL (not a number) or -ERANGE (outside min..max), and leave *ret untouched on
 * failure. This file is the only one that may call strtol() and its kin.
 */
#pragma once

#include <stdint.h>

int parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret);
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Hexadecimal digits, without "0x". */
int parse_hex(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Bytes with an optional unit of 1024: "64K", "1MiB", "2g"; a bare number is bytes. */
int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* A span of time with an optional unit: "250ms", "30s", "5m", "2h"; a bare number is seconds. */
int parse_duration_ms(const char *s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms);

/*
 * An instant as RFC 3339 has it, "2026-11-29T15:16:00.123Z" or with an offset such as "+02:00", in milliseconds of
 * clock_real_ms(); what is finer is cut off. Years 1970 to 9999.
 */
int parse_rfc3339_ms(const char *s, int64_t *ret_ms);
