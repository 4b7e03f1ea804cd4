/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a sandbox: what passes is the guest's own, and marking an error keeps its checksum true. */
#include <stdlib.h>
#include <string.h>

#include "egress/frame.h"
#include "proto/guest_net.h"

/* RFC 1071, of all bytes. */
static uint32_t sum(const uint8_t *p, size_t len)
{
	uint32_t total = 0;

	for (size_t i = 0; i < len; i++)
		total += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	return total % 0xFFFF;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t guest[] = GUEST_NET_MAC;
	struct egress_target t;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (frame_check(data, size, &t) != FRAME_DROP &&
		(size < FRAME_HEADER || memcmp(data + 6, guest, sizeof(guest)) != 0))
		__builtin_trap();
	if (size)
		memcpy(copy, data, size);
	frame_mark_prohibited(copy, size);
	if (sum(copy, size) != sum(data, size))
		__builtin_trap();
	free(copy);
	return 0;
}
