/* SPDX-License-Identifier: Apache-2.0 */
/* The error value: formatting, and the table of kinds made from api/errors.def. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct {
	const char *code;
	int http_status;
	int cli_exit;
	const char *text;
} kinds[] = {
	[ERR_NONE] = {"ok", 200, 0, "no error"},
#define X(kind, code, http, cli, text) [ERR_##kind] = {code, http, cli, text},
#include "errors.def"
#undef X
};
static_assert(ARRAY_SIZE(kinds) == _ERR_KIND_MAX, "every kind has a row");

/* snprintf() may cut inside a multi-byte character: take the broken tail away. */
static void trim_to_char(char *s, size_t size, int wanted)
{
	if (wanted >= 0 && (size_t)wanted >= size)
		s[str_utf8_floor(s, strlen(s))] = '\0';
}

PRINTF_LIKE(4, 0)
static void set_va(struct err *err, enum err_kind kind, int r, const char *fmt, va_list ap)
{
	err->kind = kind;
	err->os = r;
	trim_to_char(err->msg, sizeof(err->msg), vsnprintf(err->msg, sizeof(err->msg), fmt, ap));
}

int err_set(struct err *err, enum err_kind kind, int r, const char *fmt, ...)
{
	va_list ap;

	assert(r < 0);
	if (!err)
		return r;
	va_start(ap, fmt);
	set_va(err, kind, r, fmt, ap);
	va_end(ap);
	return r;
}

int err_set_errno(struct err *err, int r, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	assert(r < 0);
	if (!err)
		return r;
	va_start(ap, fmt);
	set_va(err, r == -ENOSPC || r == -EDQUOT ? ERR_NO_SPACE : ERR_INTERNAL, r, fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(-r));
	return r;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[sizeof(err->msg)];
	va_list ap;
	size_t n;

	if (!err)
		return -EIO;
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	trim_to_char(err->msg, sizeof(err->msg),
		(int)n + snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", inner));
	return err->os;
}

const char *err_code(enum err_kind kind)
{
	return kinds[kind].code;
}

int err_http_status(enum err_kind kind)
{
	return kinds[kind].http_status;
}

int err_cli_exit(enum err_kind kind)
{
	return kinds[kind].cli_exit;
}

enum err_kind err_from_code(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].code, code) == 0)
			return (enum err_kind)i;
	}
	return ERR_INTERNAL;
}

const char *err_msg(const struct err *err)
{
	return err->msg[0] ? err->msg : kinds[err->kind].text;
}
