/* SPDX-License-Identifier: Apache-2.0 */
/* Structured log lines on stderr, as text or as JSON. */
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"

enum {
	VALUE_MAX = 256, /* bytes of one value that are shown */
	LINE_MAX_BYTES = 4096,
};

static struct {
	enum log_level level;
	bool json;
} config = {.level = LOG_INFO};

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

void log_init(enum log_level level, bool json)
{
	config.level = level;
	config.json = json;
}

/* Quotes for both formats: printable UTF-8 with '"' and '\' escaped. */
static void append_quoted(struct buf *line, const char *value)
{
	char safe[VALUE_MAX + 8];

	str_printable(safe, sizeof(safe), value, strlen(value));
	(void)buf_append(line, "\"", 1);
	for (const char *p = safe; *p; p++) {
		if (*p == '"' || *p == '\\')
			(void)buf_append(line, "\\", 1);
		(void)buf_append(line, p, 1);
	}
	(void)buf_append(line, "\"", 1);
}

static void append_time(struct buf *line)
{
	struct timespec ts;
	struct tm tm;
	char text[40];

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	(void)gmtime_r(&ts.tv_sec, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)buf_appendf(line, "%s.%03ldZ", text, ts.tv_nsec / 1000000);
}

static void append_field(struct buf *line, const struct log_field *field)
{
	_cleanup_buf_ struct buf text = buf_init(LINE_MAX_BYTES);

	(void)buf_appendf(&text, config.json ? ",\"%s\":" : " %s=", field->key);
	if (field->str)
		append_quoted(&text, field->str);
	else
		(void)buf_appendf(&text, "%lld", (long long)field->num);
	(void)buf_append(line, text.data, text.len); /* whole, or left out where the line is full */
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t n)
{
	_cleanup_buf_ struct buf line = buf_init(LINE_MAX_BYTES - 2); /* room for its end */

	if (level > config.level)
		return;
	if (config.json) {
		(void)buf_append(&line, "{\"time\":\"", 9);
		append_time(&line);
		(void)buf_appendf(&line, "\",\"level\":\"%s\",\"msg\":", level_names[level]);
		append_quoted(&line, msg);
	} else {
		append_time(&line);
		(void)buf_appendf(&line, " %-5s %s", level_names[level], msg);
	}
	for (size_t i = 0; i < n; i++)
		append_field(&line, &fields[i]);
	line.max = LINE_MAX_BYTES;
	(void)buf_append(&line, config.json ? "}\n" : "\n", config.json ? 2 : 1);
	if (line.len)
		(void)!write(STDERR_FILENO, line.data, line.len); /* nowhere left to complain */
}
