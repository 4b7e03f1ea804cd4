/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Listens on "HOST:PORT" or "[IPV6]:PORT", on that address only. *ret_fd is non-blocking. */
int listen_open(const char *address, int *ret_fd, struct err *err);

/* The address that a socket really has, in the same form. */
int listen_address(int fd, char *dst, size_t size, struct err *err);
