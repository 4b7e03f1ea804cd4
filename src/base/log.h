/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log lines on stderr, as text or as JSON.
 *
 *	log_info("sandbox created", LOG_STR("sandbox", id), LOG_INT("boot_ms", ms));
 *
 * Strings may come from a guest or a client: they are escaped and cut at 256 bytes. Never pass a
 * key, a token or file contents. The one state of this module is the format and the level, set by
 * log_init() before threads exist; a line is one write(2), so lines of threads do not mix.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum log_level {
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

struct log_field {
	const char *key;
	const char *str; /* NULL: the number counts */
	int64_t num;
};

static inline struct log_field log_str(const char *key, const char *value)
{
	return (struct log_field){.key = key, .str = value ? value : ""};
}

#define LOG_STR(k, v) log_str(k, v)
#define LOG_INT(k, v) ((struct log_field){.key = (k), .num = (int64_t)(v)})

void log_init(enum log_level level, bool json);

void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t n);

#define log_at(level, msg, ...) \
	log_write(level, msg, (const struct log_field[]){__VA_ARGS__}, \
		sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
#define log_error(msg, ...) log_at(LOG_ERROR, msg, __VA_ARGS__)
#define log_warn(msg, ...) log_at(LOG_WARN, msg, __VA_ARGS__)
#define log_info(msg, ...) log_at(LOG_INFO, msg, __VA_ARGS__)
#define log_debug(msg, ...) log_at(LOG_DEBUG, msg, __VA_ARGS__)
