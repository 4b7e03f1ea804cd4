/* SPDX-License-Identifier: Apache-2.0 */
/* Output that is kept, and streams that are told of it. */
#include "output_log.h"

#include "base/macros.h"

enum { EVENT_ROOM = 64 }; /* more than either event takes */

struct reader {
	struct list node;
	struct output_log *log;
	struct stream *stream;
	struct output_cursor cursor;
	uint64_t replay; /* what there was when it came */
	bool follow;
	bool live; /* the event was sent */
};

static void reader_free(struct reader *r)
{
	list_remove(&r->node);
	free(r);
}

/* Sends a piece, or an event. False when there is nothing to send now. */
static bool send_next(struct reader *r, size_t room)
{
	const struct output_ring *ring = &r->log->ring;
	const uint8_t *data;
	uint64_t missed;
	uint8_t channel;
	size_t n;

	if (!r->live && r->cursor.seen >= r->replay) {
		if (!r->follow)
			return false;
		r->live = true;
		stream_send_event(r->stream, json_pack("{sb}", "live", 1));
		return true;
	}
	n = output_ring_read(ring, &r->cursor, room - EVENT_ROOM, &channel, &data, &missed);
	if (missed)
		stream_send_event(r->stream, json_pack("{sI}", "missed", (json_int_t)missed));
	if (n)
		stream_send(r->stream, LINK_DATA, channel, data, n);
	return n > 0;
}

/* Sends what there is and the stream takes. May end the stream and free the reader. */
static void pump(struct reader *r)
{
	const struct output_log *log = r->log;
	struct stream *s = r->stream;
	size_t room;

	do {
		room = stream_room(s);
		if (room <= EVENT_ROOM) {
			stream_want_bytes(s, EVENT_ROOM + 1);
			return;
		}
	} while (send_next(r, room));
	if (r->follow && !log->end)
		return;
	reader_free(r);
	stream_close(s, log->end ? json_incref(log->end) : json_object());
}

static void on_room(struct stream *s)
{
	pump(s->owner);
}

static void on_gone(struct stream *s)
{
	reader_free(s->owner);
}

static const struct stream_ops ops = {
	.on_room = on_room,
	.on_gone = on_gone,
};

static void pump_all(struct output_log *log)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &log->readers)
		pump(container_of(it, struct reader, node));
}

void output_log_init(struct output_log *log)
{
	*log = (struct output_log){0};
	list_init(&log->readers);
}

void output_log_done(struct output_log *log)
{
	assert(list_empty(&log->readers));
	output_ring_done(&log->ring);
	json_decref(log->end);
}

void output_log_push(struct output_log *log, uint8_t channel, const void *data, size_t len)
{
	output_ring_push(&log->ring, channel, data, len);
	pump_all(log);
}

void output_log_end(struct output_log *log, json_t *answer)
{
	log->end = answer;
	pump_all(log);
}

void output_log_attach(struct output_log *log, struct stream *s, bool follow)
{
	struct reader *r = xnew(struct reader);

	r->log = log;
	r->stream = s;
	r->replay = log->ring.total;
	r->follow = follow;
	list_append(&log->readers, &r->node);
	s->owner = r;
	s->ops = &ops;
	pump(r);
}
