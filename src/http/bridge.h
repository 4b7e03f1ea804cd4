/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between a client's socket and a stream of the link, both ways, in one thread. */
#pragma once

#include <stddef.h>

#include "link/link.h"

/*
 * Until both directions have ended, or either side is gone. The socket must not block. `early` is what the client sent
 * before, `rest` what was read of the stream before. Both stay the caller's.
 */
void bridge_run(struct link_stream *stream, int fd, const void *early, size_t early_len,
	const void *rest, size_t rest_len);
