/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream from the guest, told to the client as server-sent events while it goes on: what a
 * command or a cell writes, the events of a cell, and how it ended.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "core/core.h"
#include "http/event_body.h"
#include "http/http.h"
#include "http/sse.h"
#include "http/utf8_stream.h"
#include "link/link.h"

struct relay;

struct relay_ops {
	/* DATA of stdout or stderr; NULL: told as events of these names. 0, or a negative errno with *err. */
	int (*on_data)(struct relay *r, enum link_channel channel, const void *data, size_t len,
		struct err *err);
	/* An EVENT of the guest; NULL where none is expected. 0, or a negative errno with *err. */
	int (*on_event)(struct relay *r, const json_t *event, struct err *err);
	/* The guest's answer, after which nothing comes. The same. */
	int (*on_close)(struct relay *r, const json_t *ok, struct err *err);
	/* Frees `user`; may be NULL. */
	void (*free_user)(void *user);
};

struct relay {
	const struct relay_ops *ops;
	void *user;                 /* owned through ops->free_user */
	struct sandbox *sb;         /* owned reference */
	struct link_stream *stream; /* owned */
	int client_fd;              /* borrowed */
	int64_t deadline_ms;        /* clock_mono_ms(), -1: never */
	int64_t timeout_ms;         /* what the client asked for, for the words of a timeout */
	struct utf8_stream text[2]; /* of stdout, stderr */
	struct event_body body;     /* of the next event */
	uint64_t seq;               /* of the next event */
	struct sse out;
	bool over; /* nothing comes after `out` */
};

/* Takes both references and answers with the stream. Set the deadline in *ret, if any. */
int relay_start(struct http_req *req, struct http_resp *resp, const struct relay_ops *ops,
	struct sandbox *sb, struct link_stream *stream, struct relay **ret);

/* Adds an event to what is sent; takes the reference. -EMSGSIZE (ERR_TOO_LARGE) or -ENOMEM. */
int relay_emit(struct relay *r, const char *event, json_t *data, struct err *err);
