/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine's program says of itself. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/*
 * With the lead "QEMU emulator version ": "QEMU emulator version 7.2.22 (Debian …)" → "7.2.22" in version[size] and 702 (major * 100 +
 * minor); 0 when it is not understood, and what version[] then holds counts for nothing.
 */
int program_parse_version(const char *text, const char *lead, char *version, size_t size);

/* Runs it, and reads what it prints, up to size - 1 bytes. It must end well. */
int program_output(const char *const argv[], char *out, size_t size, struct err *err);
