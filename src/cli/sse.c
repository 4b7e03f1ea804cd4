/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: bytes in, whole events out. */
#include "cli/sse.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

struct sse sse_init(size_t max)
{
	return (struct sse){.line = buf_init(max), .data = buf_init(max)};
}

void sse_done(struct sse *sse)
{
	buf_done(&sse->line);
	buf_done(&sse->data);
}

/* An empty line: the event is complete. */
static int dispatch(struct sse *sse, sse_event_fn *fn, void *user)
{
	struct sse_event event = {.name = sse->name[0] ? sse->name : "message"};
	int r = 0;

	if (sse->data.len) {
		sse->data.data[--sse->data.len] = '\0';
		event.data = sse->data.data;
		event.len = sse->data.len;
		r = fn(&event, user);
	}
	buf_clear(&sse->data);
	sse->name[0] = '\0';
	return r;
}

static int append_data(struct sse *sse, const char *value, size_t len)
{
	int r = buf_append(&sse->data, value, len);

	return r < 0 ? r : buf_append(&sse->data, "\n", 1);
}

/* "field: value", "field:value" or "field"; a comment has no field before its colon. */
static int take_field(struct sse *sse, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	size_t name_len = colon ? (size_t)(colon - line) : len;
	const char *value = colon ? colon + 1 : line + len;

	if (colon && value < line + len && *value == ' ')
		value++;
	len -= (size_t)(value - line);
	if (name_len == 4 && memcmp(line, "data", 4) == 0)
		return append_data(sse, value, len);
	if (name_len == 5 && memcmp(line, "event", 5) == 0)
		(void)snprintf(sse->name, sizeof(sse->name), "%.*s",
			(int)MIN(len, sizeof(sse->name)), value);
	return 0;
}

static int end_line(struct sse *sse, sse_event_fn *fn, void *user)
{
	const char *line = sse->line.data;
	size_t len = sse->line.len;
	int r;

	if (!sse->started && len >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
		line += 3;
		len -= 3;
	}
	sse->started = true;
	r = len ? take_field(sse, line, len) : dispatch(sse, fn, user);
	buf_clear(&sse->line);
	return r;
}

int sse_feed(struct sse *sse, const char *bytes, size_t len, sse_event_fn *fn, void *user)
{
	const char *end = bytes + len;

	while (bytes < end) {
		const char *p;
		int r;

		if (sse->after_cr && *bytes == '\n')
			bytes++;
		sse->after_cr = false;
		for (p = bytes; p < end && *p != '\n' && *p != '\r'; p++)
			;
		r = buf_append(&sse->line, bytes, (size_t)(p - bytes));
		if (r == 0 && p < end) {
			sse->after_cr = *p++ == '\r';
			r = end_line(sse, fn, user);
		}
		if (r < 0)
			return r;
		bytes = p;
	}
	return 0;
}
