/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the guest link: encode and decode, no I/O. */
#include "proto/link_frame.h"

#include <errno.h>

void link_put_u32(uint8_t dst[4], uint32_t v)
{
	dst[0] = (uint8_t)v;
	dst[1] = (uint8_t)(v >> 8);
	dst[2] = (uint8_t)(v >> 16);
	dst[3] = (uint8_t)(v >> 24);
}

uint32_t link_get_u32(const uint8_t src[4])
{
	return (uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 |
		(uint32_t)src[3] << 24;
}

void link_encode_header(uint8_t dst[LINK_HEADER_BYTES], enum link_type type, uint8_t arg,
	uint32_t stream, uint32_t length)
{
	assert(type > 0 && type < _LINK_TYPE_MAX && length <= LIMIT_FRAME_BYTES);
	dst[0] = LINK_MAGIC;
	dst[1] = (uint8_t)type;
	dst[2] = arg;
	dst[3] = 0;
	link_put_u32(dst + 4, stream);
	link_put_u32(dst + 8, length);
}

int link_decode(const uint8_t *data, size_t len, struct link_frame *ret, size_t *ret_used)
{
	size_t pad = 0;
	const uint8_t *h;
	uint32_t length;

	while (pad < len && data[pad] == 0)
		pad++;
	h = data + pad;
	len -= pad;
	if (len > 0 && h[0] != LINK_MAGIC)
		return -EPROTO;
	if (len < LINK_HEADER_BYTES) {
		*ret_used = pad;
		return 0;
	}
	length = link_get_u32(h + 8);
	if (h[1] == 0 || h[1] >= _LINK_TYPE_MAX || h[3] != 0 || length > LIMIT_FRAME_BYTES)
		return -EPROTO;
	if (len - LINK_HEADER_BYTES < length) {
		*ret_used = pad;
		return 0;
	}
	*ret = (struct link_frame){
		.type = (enum link_type)h[1],
		.arg = h[2],
		.stream = link_get_u32(h + 4),
		.length = length,
		.payload = h + LINK_HEADER_BYTES,
	};
	*ret_used = pad + LINK_HEADER_BYTES + length;
	return 1;
}
