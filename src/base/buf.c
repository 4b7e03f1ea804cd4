/* SPDX-License-Identifier: Apache-2.0 */
/* A byte buffer that grows up to a bound. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

int buf_reserve(struct buf *b, size_t extra)
{
	size_t need, cap;
	char *data;

	if (extra > b->max || b->len > b->max - extra)
		return -EMSGSIZE;
	need = b->len + extra + 1;
	if (need <= b->cap)
		return 0;
	cap = MAX(need, MIN(b->cap * 2, b->max + 1));
	cap = MAX(cap, (size_t)64);
	data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->data[b->len] = '\0';
	b->cap = cap;
	return 0;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	int r = buf_reserve(b, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
	return 0;
}

int buf_sink(const char *text, size_t len, void *user)
{
	return buf_append(user, text, len);
}

int buf_appendf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	r = buf_reserve(b, (size_t)n);
	if (r < 0)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap); /* fits: measured above */
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len);
	b->data[b->len] = '\0';
}

char *buf_steal(struct buf *b)
{
	char *data = b->data ? b->data : calloc(1, 1);

	*b = (struct buf){.max = b->max};
	return data;
}
