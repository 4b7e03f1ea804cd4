/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of an HTTP/1.1 server's answer: llhttp, and bounds on what it finds.
 *
 *	answer_new() → answer_head()… until `head` → answer_body()… until `over` → answer_free()
 *
 * Lenient about line ends, for many a server of a few lines is; strict about all that tells how long the body is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct answer;

/* What is known once `head` is set. */
struct answer_facts {
	bool head; /* the final answer's head was read: not one of 100 to 199, which are left out */
	bool over; /* all of it was read */
	bool upgraded; /* status is 101: what follows is in another protocol */
	int status;    /* 100 to 999 */
	int64_t body_len; /* as announced, also where there is none because of the request; -1: unknown */
	struct buf headers; /* headers.h */
	const char *why;    /* after -EPROTO: what is wrong with it */
};

/* no_body: to a HEAD. upgrade: a change of the protocol was asked for. */
struct answer *answer_new(bool no_body, bool upgrade);
struct answer *answer_free(struct answer *a);
const struct answer_facts *answer_facts(const struct answer *a);

/* Takes bytes up to the end of the head. Returns how many, or -EPROTO. */
ssize_t answer_head(struct answer *a, const void *data, size_t len);

/* Takes bytes of the body; what they mean goes to dst, never more than was taken. The same. */
ssize_t answer_body(struct answer *a, const void *data, size_t len, void *dst, size_t *ret_len);

/* The server's end: -EPROTO where more should have come, else `over` is set. */
int answer_end(struct answer *a);
