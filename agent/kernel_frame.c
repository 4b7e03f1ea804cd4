/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between the agent and the Python runtime: encode and decode, no I/O. */
#include "kernel_frame.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "proto/link_frame.h"

struct kernel_frame kernel_frame_header(const uint8_t *data)
{
	return (struct kernel_frame){.length = link_get_u32(data), .type = data[4]};
}

int kernel_frame_decode(const uint8_t *data, size_t len, struct kernel_frame *ret, size_t *ret_used)
{
	struct kernel_frame f;

	if (len < KERNEL_HEADER_BYTES)
		return 0;
	f = kernel_frame_header(data);
	if (len - KERNEL_HEADER_BYTES < f.length)
		return 0;
	f.payload = data + KERNEL_HEADER_BYTES;
	*ret = f;
	*ret_used = KERNEL_HEADER_BYTES + (size_t)f.length;
	return 1;
}

int kernel_frame_append_json(struct buf *b, enum kernel_frame_type type, const json_t *json)
{
	_cleanup_free_ char *text = json_dumps(json, JSON_COMPACT);
	uint8_t header[KERNEL_HEADER_BYTES];
	size_t len;
	int r;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	if (len > UINT32_MAX)
		return -EMSGSIZE;
	link_put_u32(header, (uint32_t)len);
	header[4] = (uint8_t)type;
	r = buf_reserve(b, sizeof(header) + len);
	if (r == 0)
		r = buf_append(b, header, sizeof(header));
	return r < 0 ? r : buf_append(b, text, len);
}
