/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel proper inside of a distribution's bootable file (bzImage: Documentation/arch/x86/boot.rst of Linux), for engines that
 * start at the ELF file. Understands what Debian compresses with: LZ4, in the form that `lz4 -l` writes.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { KERNEL_IMAGE_MAX = 64 << 20, KERNEL_ELF_MAX = 256 << 20 };

/* Writes the ELF file of the kernel at `path` to `elf_path`. */
int kernel_image_extract(const char *path, const char *elf_path, struct err *err);

/* The same in memory: returns the bytes of `elf`, or -EPROTO where there is no such kernel, or one that does not fit. */
ptrdiff_t kernel_image_unpack(const void *image, size_t len, void *elf, size_t size);
