/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of QEMU's machine protocol: connect, execute, close. Blocking, one thread at a time.
 *
 * QEMU's answers are input: lines of at most 64 KiB, of JSON objects.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

struct qmp {
	int fd; /* owned */
	struct buf in;
};

/* Connects to the socket in that folder and negotiates. */
int qmp_open(struct qmp *qmp, int dir_fd, const char *name, struct err *err);
void qmp_close(struct qmp *qmp);

/*
 * Runs a command; `args` (the reference is taken) may be NULL. Waits up to timeout_ms for its end.
 * *ret, unless NULL, gets the "return" value, owned by the caller.
 */
int qmp_execute(struct qmp *qmp, const char *command, json_t *args, int timeout_ms, json_t **ret,
	struct err *err);

/*
 * Takes one line off the front of data[0..len): returns 1 with the parsed object in *ret (owned by
 * the caller) and *ret_used, 0 when the line is not complete, -EPROTO when it is no JSON object.
 */
int qmp_parse_line(const char *data, size_t len, json_t **ret, size_t *ret_used);
