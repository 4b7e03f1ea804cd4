/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel proper inside of a distribution's bootable file (bzImage: Documentation/arch/x86/boot.rst of Linux), for engines that
 * start at the ELF file. Understands what Debian compresses with: LZ4, in the form that `lz4 -l` writes.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { KERNEL_ELF_MAX = 256 << 20 };

/* Writes the ELF file of the kernel at `path` to `elf_path`. */
int kernel_image_extract(const char *path, const char *elf_path, struct err *err);

/* One LZ4 block, without its size. Returns the bytes of `to`, or -EPROTO where it makes no sense or does not fit. */
ptrdiff_t lz4_block_decode(const void *data, size_t len, void *to, size_t size);
