/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of Firecracker's API socket: one request, one answer, one connection.
 *
 * What Firecracker answers is input: the answer is bounded, and its words are made printable.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/*
 * Sends `body` (an object; the reference is taken) with that method, waits for the answer, and takes any status of 2xx for success.
 * -EREMOTEIO (ERR_ENGINE) with Firecracker's own words where it refuses; -EPIPE where it has ended; -ETIMEDOUT. `ret`, unless NULL,
 * is the object that it answered.
 */
int fc_api_call(int dir_fd, const char *method, const char *path, json_t *body, int timeout_ms,
	json_t **ret, struct err *err);

/* What an answer says. */
struct fc_answer {
	int status;
	json_t *json; /* owned; NULL where there is no body, or one that is no object */
};
void fc_answer_done(struct fc_answer *a);

/* Reads a whole answer from the beginning of what has come. 1; 0 when there is more of it; -EPROTO. */
int fc_api_parse(const char *data, size_t len, struct fc_answer *ret);
