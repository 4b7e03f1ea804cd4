/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of the guest link (api/link.md): many streams over one socket to a machine.
 *
 * A `link_hub` is one epoll thread that reads all links of the daemon and puts what arrives into
 * the queues of their streams; it never blocks and never writes. Any other thread opens a stream,
 * sends, and waits for what comes back, so that a handler reads from top to bottom:
 *
 *	link_open(link, request, &s, err)
 *	while ((r = link_next(s, &ev, deadline_ms, hangup_fd, err)) > 0) { …; link_event_done(s, &ev); }
 *	link_stream_free(s)
 *
 * A stream belongs to one thread at a time; a link may be used by all. When the link dies (the VM
 * is gone, the guest broke the protocol) every waiting call returns -EPIPE at once.
 *
 * Everything that arrives is hostile: bounded by the window, the frame size and LIMIT_EVENT_BYTES.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "link/hub.h"
#include "proto/link_frame.h"

struct link;
struct link_stream;

/*
 * Takes over the connected socket `fd` (also on failure) and begins a generation. `padded` is set
 * when an earlier host may have left half a frame. Does not wait for the guest's answer: streams
 * may be opened at once.
 */
int link_new(struct link_hub *hub, int fd, bool padded, struct link **ret, struct err *err);
struct link *link_ref(struct link *link);
/* The last reference closes the socket. Returns NULL. */
struct link *link_unref(struct link *link);

/* Breaks the link: everybody who waits gets -EPIPE with that message. */
void link_fail(struct link *link, const char *why);

/*
 * Calls fn(user, why) once when the link dies, or now when it has. The link's lock is held, so fn must neither
 * block nor call back; after link_on_dead(link, NULL, NULL) it is not running and never runs again.
 */
typedef void link_dead_fn(void *user, const char *why);
void link_on_dead(struct link *link, link_dead_fn *fn, void *user);

/* What a stream received. Valid until link_event_done(). */
struct link_event {
	enum link_type type; /* LINK_DATA, LINK_EVENT, LINK_END or LINK_CLOSE */
	enum link_channel channel;
	const uint8_t *data; /* of DATA */
	size_t len;
	/* Owned by the event: an object, of EVENT and of CLOSE (its "ok"). An EVENT that is larger than our limits
	 * comes as {"type":"dropped","bytes":N}. */
	json_t *json;
	void *chunk; /* private */
};

/*
 * Opens a stream with that request (a JSON object; the reference is taken, also on failure).
 * -EAGAIN (ERR_TOO_MANY) when LIMIT_STREAMS are open, -EMSGSIZE (ERR_TOO_LARGE), -EPIPE.
 */
int link_open(struct link *link, json_t *request, struct link_stream **ret, struct err *err);

/* Closes: cancels what still runs in the guest, drops what was not read. NULL is fine. */
struct link_stream *link_stream_free(struct link_stream *s);

/*
 * Waits for the next event. Returns 1 with *ret filled; 0 when deadline_ms (clock_mono_ms(), -1 for
 * never) has passed; -ECONNRESET when hangup_fd (a client's socket, or -1) was closed by its peer;
 * -EPIPE when the link died; or, for a CLOSE that carries an error, the guest's error as *err
 * (kind mapped to ours, the message made printable).
 */
int link_next(struct link_stream *s, struct link_event *ret, int64_t deadline_ms, int hangup_fd,
	struct err *err);
/* Gives the event's memory and its window back. */
void link_event_done(struct link_stream *s, struct link_event *ev);

/*
 * For a thread that waits for other descriptors, too: link_stream_fd() turns readable when the stream may have something
 * new (an event, window, its end), until link_stream_clear(); look at the stream after that, not before. What is there
 * is taken by link_next() with a deadline of 0, and link_send() does not wait for up to link_stream_room() bytes.
 */
int link_stream_fd(const struct link_stream *s);
void link_stream_clear(struct link_stream *s);
size_t link_stream_room(struct link_stream *s);

/* Sends bytes on LINK_CH_BODY; waits for window. 0, -EPIPE, -ECONNRESET (hangup_fd), -ECANCELED
 * when the guest has already closed the stream (read its answer with link_next()), -ETIMEDOUT. */
int link_send(struct link_stream *s, const void *data, size_t len, int64_t deadline_ms,
	int hangup_fd, struct err *err);
/* No more bytes from us. */
int link_end(struct link_stream *s, struct err *err);
/* Sends an EVENT of a few bytes, such as {"interrupt":true}; takes the reference. Never waits for
 * window: -EAGAIN (ERR_TOO_MANY) after hundreds that the guest did not take. */
int link_control(struct link_stream *s, json_t *event, struct err *err);
/* Asks the guest to stop; its CLOSE still arrives. */
void link_cancel(struct link_stream *s);

/*
 * A request without body or events: opens, waits, and returns the "ok" object of the answer
 * (owned by the caller) in *ret, unless ret is NULL. -ETIMEDOUT (ERR_TIMEOUT) after timeout_ms; -ECONNRESET
 * when hangup_fd (or -1) was closed by its peer: the guest is then told to stop.
 */
int link_call(struct link *link, json_t *request, int64_t timeout_ms, int hangup_fd, json_t **ret,
	struct err *err);

DEFINE_CLEANUP(struct link_stream *, link_stream_free)
#define _cleanup_stream_ CLEANUP(link_stream_freep)
