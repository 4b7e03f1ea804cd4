/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error value: what went wrong, in a kind that is stable API and a message for people.
 *
 * A fallible function returns 0 (or a documented positive value) or a negative errno, and takes a
 * `struct err *` as its last parameter when the failure can reach a user. The caller owns the
 * value; nothing here allocates. The message is complete: it names the thing and says what to do.
 *
 *	return err_set(err, ERR_FILE_NOT_FOUND, -ENOENT, "no such file: %s", path);
 *
 * `err` may be NULL where the caller does not care. Thread rule: a value belongs to one thread.
 */
#pragma once

#include "base/macros.h"

enum err_kind {
	ERR_NONE,
#define X(kind, code, http, cli, text) ERR_##kind,
#include "errors.def"
#undef X
	_ERR_KIND_MAX,
};

struct err {
	enum err_kind kind;
	int os;        /* the negative errno that was returned with it */
	char msg[512]; /* UTF-8, NUL-terminated, cut on a character's border */
};

/* Fills *err and returns r, which must be negative. */
int err_set(struct err *err, enum err_kind kind, int r, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Like err_set() with ": <strerror>" behind the message; ENOSPC and EDQUOT become ERR_NO_SPACE. */
int err_set_errno(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "<context>: " before the message that *err already holds; returns its errno. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Facts of a kind, from api/errors.def. */
const char *err_code(enum err_kind kind);
int err_http_status(enum err_kind kind);
int err_cli_exit(enum err_kind kind);

/* The kind with that wire code, or ERR_INTERNAL. */
enum err_kind err_from_code(const char *code);

/* The message, or the kind's own text where there is none; never NULL. */
const char *err_msg(const struct err *err);
