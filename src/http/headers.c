/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a message. */
#include "http/headers.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_token(const char *s, size_t len)
{
	static const char chars[] = "!#$%&'*+-.^_`|~0123456789"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	for (size_t i = 0; i < len; i++) {
		if (!s[i] || !strchr(chars, s[i]))
			return false;
	}
	return len > 0;
}

static bool is_value(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < ' ' && c != '\t') || c == 0x7F)
			return false;
	}
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

int headers_add(struct buf *list, const char *name, size_t name_len, const char *value,
	size_t value_len)
{
	size_t before = list->len;
	int r;

	while (value_len && is_blank(value[0])) {
		value++;
		value_len--;
	}
	while (value_len && is_blank(value[value_len - 1]))
		value_len--;
	if (!is_token(name, name_len) || !is_value(value, value_len))
		return -EINVAL;
	r = buf_append(list, name, name_len);
	if (r == 0)
		r = buf_append(list, "", 1);
	if (r == 0)
		r = buf_append(list, value, value_len);
	if (r == 0)
		r = buf_append(list, "", 1);
	if (r < 0)
		list->len = before;
	return r;
}

bool headers_next(const struct buf *list, size_t *pos, struct http_header *ret)
{
	if (*pos >= list->len)
		return false;
	ret->name = list->data + *pos;
	ret->value = ret->name + strlen(ret->name) + 1;
	*pos = (size_t)(ret->value - list->data) + strlen(ret->value) + 1;
	return true;
}

const char *headers_get(const struct buf *list, const char *name)
{
	struct http_header h;

	for (size_t pos = 0; headers_next(list, &pos, &h);) {
		if (strcasecmp(h.name, name) == 0)
			return h.value;
	}
	return NULL;
}

static bool has_element(const char *value, const char *element)
{
	size_t len = strlen(element);

	while (*value) {
		size_t n;

		value += strspn(value, ", \t");
		n = strcspn(value, ",");
		if (strncasecmp(value, element, len) == 0 && strspn(value + len, " \t") + len == n)
			return true;
		value += n;
	}
	return false;
}

bool headers_have(const struct buf *list, const char *name, const char *element)
{
	struct http_header h;

	for (size_t pos = 0; headers_next(list, &pos, &h);) {
		if (strcasecmp(h.name, name) == 0 && has_element(h.value, element))
			return true;
	}
	return false;
}
