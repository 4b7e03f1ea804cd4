/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of a message, in their order: a buffer that holds "name\0value\0" of each. What is in it is well-formed: a
 * name is a token, a value has no control characters but tabs (RFC 9110, section 5). Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct http_header {
	const char *name;
	const char *value;
};

/* Blanks around the value are left out. -EINVAL for what is not well-formed, -EMSGSIZE, -ENOMEM. */
int headers_add(struct buf *list, const char *name, size_t name_len, const char *value,
	size_t value_len);

/* The next one from *pos on, 0 at first; false at the end. */
bool headers_next(const struct buf *list, size_t *pos, struct http_header *ret);

/* The first of that name, or NULL. */
const char *headers_get(const struct buf *list, const char *name);

/* Whether one of that name has this element in its list: of "a, b", "a" and "b". Case does not count. */
bool headers_have(const struct buf *list, const char *name, const char *element);
