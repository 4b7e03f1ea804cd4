/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between the agent and the Python runtime, on the zygote's channel and on the control
 * sockets of kernels: u32 little-endian payload length, u8 type, payload. Encode and decode, no I/O.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { KERNEL_HEADER_BYTES = 5 };

enum kernel_frame_type {
	KERNEL_READY = 'r',       /* zygote: warm */
	KERNEL_FORK = 'f',        /* to the zygote */
	KERNEL_FORK_FAILED = 'x', /* zygote */
	KERNEL_HELLO = 'k',       /* kernel: JSON {"pid"} */
	KERNEL_RUN = 'R',         /* to the kernel: JSON {"code","ansi","allow_stdin","env"?} */
	KERNEL_STDOUT = 'o',      /* kernel: bytes */
	KERNEL_STDERR = 'e',      /* kernel: bytes */
	KERNEL_BODY = 'b',        /* kernel: bytes that belong to the next event, passed on */
	KERNEL_EVENT = 'm',       /* kernel: JSON, passed on as it is */
	KERNEL_ASK = 'i',      /* kernel: JSON, an event that asks for input, passed on as it is */
	KERNEL_RESEED = 'S',   /* to the kernel: JSON {} */
	KERNEL_RESEEDED = 's', /* kernel: JSON {} */
	KERNEL_INPUT = 'I',    /* to the kernel: JSON {"value"} */
	KERNEL_DONE = 'd',     /* kernel: JSON {"status","execution_count","exit_code"?} */
};

struct kernel_frame {
	uint8_t type;
	uint32_t length;
	const uint8_t *payload; /* borrowed from the input */
};

/* Decodes the header alone; data holds KERNEL_HEADER_BYTES. */
struct kernel_frame kernel_frame_header(const uint8_t *data);

/* One whole frame off the front: 1 with *ret and *ret_used, or 0 when more bytes are needed. */
int kernel_frame_decode(const uint8_t *data, size_t len, struct kernel_frame *ret,
	size_t *ret_used);

/* Appends a frame; -EMSGSIZE and -ENOMEM as buf_append(). `json` is borrowed. */
int kernel_frame_append_json(struct buf *b, enum kernel_frame_type type, const json_t *json);
