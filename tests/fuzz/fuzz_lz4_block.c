/* SPDX-License-Identifier: Apache-2.0 */
/* A block of a compressed kernel: nothing is read or written but what is ours. */
#include <stdint.h>

#include "engine/kernel_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[4096];
	ptrdiff_t n = lz4_block_decode(data, size, out, sizeof(out));

	if (n > (ptrdiff_t)sizeof(out))
		__builtin_trap();
	return 0;
}
