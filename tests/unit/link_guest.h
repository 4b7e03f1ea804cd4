/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of a link against a scripted guest on the other end of a socket pair: link_guest_test() makes one for
 * a test, which plays the guest with guest_…() and checks what the host's stream sees with …_is() and dies().
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "link/link.h"

enum {
	HELLO_BYTES = LINK_HEADER_BYTES + LINK_NONCE_BYTES + 4,
};

/* A hub, a link, and the guest's end of its socket. */
struct pair {
	struct link_hub *hub;
	struct link *link;
	int guest_fd;
	uint8_t hello[HELLO_BYTES];
};

struct frame {
	enum link_type type;
	uint8_t arg;
	uint32_t stream;
	uint32_t length;
	char payload[LIMIT_FRAME_BYTES + 1]; /* NUL-terminated */
};

/* All of `len`; false at the end of the link. */
bool guest_read_exactly(int fd, void *data, size_t len);
/* One frame; false at the end of the link. */
bool guest_read(int fd, struct frame *f);

/* What the host does not take any more is dropped. */
void guest_raw(int fd, const void *data, size_t len);
void guest_send(int fd, enum link_type type, uint8_t arg, uint32_t stream, const void *data,
	size_t len);
void guest_text(int fd, enum link_type type, uint8_t arg, uint32_t stream, const char *text);
void guest_credit(int fd, uint32_t stream, uint32_t n);

/* A link whose HELLO waits for the guest; link_guest_teardown() frees it. */
struct pair *pair_new(bool padded);

/* Around each test: *state is a pair whose guest has said HELLO. */
int link_guest_setup(void **state);
int link_guest_teardown(void **state);

#define link_guest_test(f) cmocka_unit_test_setup_teardown(f, link_guest_setup, link_guest_teardown)

/* The host opens a stream; the guest reads the OPEN. */
struct link_stream *open_stream(struct pair *p);

/* The next event is of that type. */
void next_is(struct link_stream *s, struct link_event *ev, enum link_type type);
void data_is(struct link_stream *s, enum link_channel channel, const char *want);
/* The event's JSON, as text without blanks. */
void json_is(struct link_stream *s, enum link_type type, const char *want);
/* Reads what is queued, up to the end of the link. */
void dies(struct link_stream *s, const char *why);

/* Why, for dies(): what the guest sent. */
#define BROKEN "its guest agent broke the link's protocol"
