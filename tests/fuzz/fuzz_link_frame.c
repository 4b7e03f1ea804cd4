/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of the link: frames taken off one by one stay within the input and encode to the same header. */
#include <string.h>

#include "proto/link_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t header[LINK_HEADER_BYTES];
	struct link_frame f, again;
	size_t at = 0, used;

	while (link_decode(data + at, size - at, &f, &used) > 0) {
		if (used < LINK_HEADER_BYTES + f.length || f.payload + f.length != data + at + used)
			__builtin_trap();
		link_encode_header(header, f.type, f.arg, f.stream, f.length);
		if (memcmp(header, f.payload - LINK_HEADER_BYTES, sizeof(header)) != 0)
			__builtin_trap();
		/* One byte less is never a whole frame. */
		if (link_decode(data + at, used - 1, &again, &used) != 0)
			__builtin_trap();
		at = (size_t)(f.payload + f.length - data);
	}
	return 0;
}
