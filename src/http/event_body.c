/* SPDX-License-Identifier: Apache-2.0 */
/* Large values of a cell's events, sent as bytes ahead of the event. */
#include "http/event_body.h"

#include "base/str.h"

void event_body_done(struct event_body *b)
{
	buf_done(&b->bytes);
}

void event_body_push(struct event_body *b, const void *data, size_t len)
{
	if (b->lost || buf_append(&b->bytes, data, len) < 0) {
		b->lost = true;
		buf_done(&b->bytes);
	}
}

static json_t *make_string(const char *text, size_t len)
{
	json_t *string = json_stringn(text, len); /* NULL for what is no UTF-8 */
	_cleanup_free_ char *clean = NULL;

	if (string)
		return string;
	clean = malloc(3 * len + 1);
	return clean ? json_string(str_utf8_replace(clean, text, len)) : NULL;
}

/* False when the sizes are more than what came. */
static bool fill(const struct event_body *b, json_t *event, const json_t *sizes)
{
	json_t *data = json_object_get(event, "data"), *size;
	size_t at = 0;
	const char *mime;

	json_object_foreach((json_t *)(uintptr_t)sizes, mime, size) {
		json_int_t n = json_integer_value(size);

		if (!json_is_integer(size) || n < 0 || (size_t)n > b->bytes.len - at)
			return false;
		if (json_object_set_new(data, mime, make_string(b->bytes.data + at, (size_t)n)) < 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

void event_body_merge(struct event_body *b, json_t *event)
{
	json_t *sizes = json_object_get(event, "body");

	if (json_object_size(sizes) > 0 && (b->lost || !fill(b, event, sizes))) {
		(void)json_object_clear(event); /* fails for what is no object */
		(void)json_object_set_new(event, "type", json_string("dropped"));
	}
	buf_done(&b->bytes);
	b->lost = false;
}
