/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's file: nothing is read or written but what is ours. */
#include <stdint.h>

#include "engine/kernel_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t elf[4096];
	ptrdiff_t n = kernel_image_unpack(data, size, elf, sizeof(elf));

	if (n > (ptrdiff_t)sizeof(elf))
		__builtin_trap();
	return 0;
}
