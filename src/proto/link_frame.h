/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the guest link: encode and decode, no I/O. The protocol is described in api/link.md.
 *
 * A frame is a 12-byte header and up to LIMIT_FRAME_BYTES of payload:
 *
 *	0  u8   magic   0xA5
 *	1  u8   type    enum link_type
 *	2  u8   arg     channel of DATA, flags of OPEN and EVENT, else 0
 *	3  u8   zero
 *	4  u32  stream  little-endian; 0 is the link itself
 *	8  u32  length  little-endian, payload bytes
 *
 * Zero bytes between frames are padding and are skipped.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

enum {
	LINK_HEADER_BYTES = 12,
	LINK_MAGIC = 0xA5,
	LINK_NONCE_BYTES = 16,
	LINK_VERSION = 1,
};

enum link_type {
	LINK_HELLO = 1, /* nonce[16], u32 version: a new generation of the link begins */
	LINK_OPEN,      /* host: JSON request that opens the stream */
	LINK_DATA,      /* bytes of a channel */
	LINK_EVENT,     /* JSON: what happened (guest), what to do (host) */
	LINK_END,       /* the sender has no more DATA for this stream */
	LINK_CREDIT,    /* u32: the receiver has consumed that many bytes of DATA and EVENT */
	LINK_CLOSE,     /* guest: JSON result, the stream is over; host: cancel it */
	_LINK_TYPE_MAX,
};

/* `arg` of DATA. */
enum link_channel {
	LINK_CH_BODY = 0, /* stdin of a command, bytes of a file, code of a cell */
	LINK_CH_STDOUT = 1,
	LINK_CH_STDERR = 2,
};

/* Bit of `arg` of OPEN and EVENT: the text goes on in the next such frame of the stream. */
enum { LINK_MORE = 1 };

struct link_frame {
	enum link_type type;
	uint8_t arg;
	uint32_t stream;
	uint32_t length;
	const uint8_t *payload; /* borrowed from the input */
};

/* Writes the header of a frame whose payload of `length` bytes the caller sends behind it. */
void link_encode_header(uint8_t dst[LINK_HEADER_BYTES], enum link_type type, uint8_t arg,
	uint32_t stream, uint32_t length);

/*
 * Takes one frame off the front of data[0..len).
 *
 * Returns 1 with *ret filled and *ret_used = bytes to drop (padding included), 0 when more bytes
 * are needed (*ret_used = padding to drop), or -EPROTO when the bytes are no frame: the link is
 * then beyond repair and must be closed.
 */
int link_decode(const uint8_t *data, size_t len, struct link_frame *ret, size_t *ret_used);

void link_put_u32(uint8_t dst[4], uint32_t v);
uint32_t link_get_u32(const uint8_t src[4]);
