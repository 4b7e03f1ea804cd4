/* SPDX-License-Identifier: Apache-2.0 */
/* What `qemu-system-x86_64 --version` says. */
#pragma once

#include <stddef.h>

/*
 * "QEMU emulator version 7.2.22 (Debian …)" → "7.2.22" in version[size] and 702 (major * 100 + minor);
 * 0 when it is not understood, and what version[] then holds counts for nothing.
 */
int qemu_parse_version(const char *text, char *version, size_t size);
