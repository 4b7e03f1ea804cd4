/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest end of the link (api/link.md): frames in and out, streams, windows, generations.
 *
 * link_open() → the loop calls back → link_flush() after every pass → link_done(). An operation
 * gets its stream from `on_open`, sets `ops` and `owner`, and owns the stream until it closes it
 * with stream_close() or stream_fail(), or until `on_gone` says that the link dropped it.
 *
 * Sending is by demand: a producer asks stream_room(), sends no more than that, and with
 * stream_want_room() asks to be called when there is room (again). Nothing here blocks.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "loop.h"
#include "proto/link_frame.h"

struct stream;

/* Any of these may be NULL. All may close the stream, except on_gone. */
struct stream_ops {
	/* DATA from the host; what was used up is given back with stream_consumed(). */
	void (*on_data)(struct stream *s, const uint8_t *data, size_t len);
	/* No more DATA. */
	void (*on_end)(struct stream *s);
	/* EVENT from the host; `event` is borrowed. */
	void (*on_event)(struct stream *s, const json_t *event);
	/* The host cancels: stop, then close. Without this the link drops the stream itself. */
	void (*on_cancel)(struct stream *s);
	/* stream_want_room() is fulfilled; stream_room() > 0. */
	void (*on_room)(struct stream *s);
	/* The link drops the stream (a new generation, most of all): it is freed after this call. */
	void (*on_gone)(struct stream *s);
};

struct stream {
	struct list node;
	struct link *link;
	uint32_t id;
	const struct stream_ops *ops;
	void *owner;        /* the operation's, for its callbacks */
	size_t tx_window;   /* bytes that the host still takes */
	size_t rx_held;     /* bytes received and not given back with CREDIT */
	size_t rx_consumed; /* of these, used up: the next CREDIT */
	struct buf text;    /* parts of an OPEN or EVENT so far */
	bool opened;
	size_t wanted; /* room that it waits for; 0: none */
};

struct link {
	struct loop *loop;
	struct source source;
	int fd;       /* owned */
	bool synced;  /* the input stands on the border of a frame */
	bool hung_up; /* no host at the other end */
	uint32_t last_stream;
	struct list streams;
	size_t stream_count;
	size_t in_len;
	uint8_t in[2 * (LIMIT_FRAME_BYTES + LINK_HEADER_BYTES)];
	size_t out_pos; /* sent part of `out` */
	struct buf out;
	/* A request has arrived; `request` is borrowed. */
	void (*on_open)(struct link *link, struct stream *s, const json_t *request);
	/* The host went away (it may come back where the descriptor is a port). */
	void (*on_hangup)(struct link *link);
};

/* Takes over fd, which must not block; -1: none yet. */
int link_open(struct link *link, struct loop *loop, int fd,
	void (*on_open)(struct link *link, struct stream *s, const json_t *request),
	void (*on_hangup)(struct link *link));
void link_done(struct link *link);

/* Goes on with another descriptor, of a host that has connected anew. Takes it over. */
void link_replace(struct link *link, int fd);

/* Sends what is queued, as far as the descriptor takes it, and asks producers for more. */
void link_flush(struct link *link);

/* Bytes of DATA or EVENT that may be sent now, at most one frame. */
size_t stream_room(const struct stream *s);
void stream_want_room(struct stream *s);
/* The same for what must go in one piece: at most a frame. */
void stream_want_bytes(struct stream *s, size_t len);

/* Sends DATA or EVENT; len is within the window and a frame. */
void stream_send(struct stream *s, enum link_type type, uint8_t arg, const void *data, size_t len);

/*
 * The same without a copy: reads up to `len` <= stream_room() bytes from fd (at `offset`, or -1
 * where the file has no positions) into a DATA frame. Returns the bytes sent, 0 at the end of the
 * file, or a negative errno.
 */
ssize_t stream_send_from(struct stream *s, uint8_t channel, int fd, int64_t offset, size_t len);

/* No more DATA from us. */
void stream_end(struct stream *s);

/* The n bytes that it has just sent; valid until the next thing is. */
const void *stream_sent(const struct stream *s, size_t n);

/* Sends a whole JSON value as one EVENT; for the few small ones. Takes the reference. */
void stream_send_event(struct stream *s, json_t *event);

/* Gives n received bytes back to the host's window. */
void stream_consumed(struct stream *s, size_t n);

/* The stream is over, and freed. Takes the reference to `ok`. */
void stream_close(struct stream *s, json_t *ok);

/* The same with an error: its kind is made from err->os. */
void stream_fail(struct stream *s, const struct err *err);
void stream_failf(struct stream *s, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The `kind` of an error answer for a negative errno. */
const char *link_error_kind(int r);
