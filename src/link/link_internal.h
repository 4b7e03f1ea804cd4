/* SPDX-License-Identifier: Apache-2.0 */
/* What link.c (the socket and its frames) and stream.c (one stream, in the thread that uses it) share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "link/link.h"

enum { LINK_HELLO_BYTES = LINK_NONCE_BYTES + 4 };

struct chunk {
	struct chunk *next;
	enum link_type type;
	uint8_t arg;
	uint32_t len;
	uint8_t data[];
};

struct link_stream {
	struct link *link; /* a reference */
	uint32_t id;
	int bell; /* owned; rings when anything below changes */
	/* Under link->lock: */
	struct chunk *head, **tail;
	size_t rx_open;   /* bytes that the guest sent and we have not given back */
	size_t tx_window; /* bytes that we may send */
	bool ended;       /* the guest's END is queued or was read */
	bool closed;      /* the guest's CLOSE is queued or was read */
	/* The owner's own: */
	size_t rx_due;        /* consumed, not yet told to the guest */
	struct buf event_buf; /* parts of an event so far */
	size_t event_lost;    /* bytes of an event that is too long */
};

struct link {
	atomic_uint refs;
	int fd;
	struct link_watch *watch;
	pthread_mutex_t open_lock;
	pthread_mutex_t tx_lock;
	pthread_mutex_t lock;
	/* Under lock: */
	struct link_stream *streams[LIMIT_STREAMS];
	uint32_t next_id;
	size_t queued; /* memory that the queues of all streams take */
	bool dead;
	char why[256];
	link_dead_fn *on_dead; /* NULL: nobody wants to know */
	void *dead_user;
	/* The hub thread's own: */
	uint8_t hello[LINK_HEADER_BYTES + LINK_HELLO_BYTES]; /* the answer that we wait for */
	bool syncing;
	size_t skipped;
	struct buf rx;
};

/* The memory that a queued chunk of that payload takes. */
size_t link_chunk_cost(size_t len);

/* -EPIPE with the reason why the link is dead. */
int link_err_dead(struct link *link, struct err *err);

/* Sends one frame, whole; waits for the guest to take it, and gives the link up where it doesn't. -EPIPE. */
int link_send_frame(struct link *link, enum link_type type, uint8_t arg, uint32_t stream,
	const void *payload, size_t len, struct err *err);
