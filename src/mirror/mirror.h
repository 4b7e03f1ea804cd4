/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package cache: a mirror of this host's package indexes for its sandboxes (docs/packages.md).
 *
 * Theory of operation
 * -------------------
 * What pip, npm and apt download comes by TLS or signed, so a proxy could keep none of it, or would need a false certificate. So the
 * daemon is an index itself, on a loopback port for the egress helpers of its sandboxes; a guest sees it at GUEST_NET_MIRROR
 * (proto/guest_net.h) and is told of it in its package managers' settings (`resume`, api/link.md).
 *
 *	documents	say what there is (index.h): kept for some minutes, and for as long as their source is not reached
 *	files		have their hash in a document, are checked, and kept; so are apt's packages, whose signatures it checks itself
 *	the rest	of apt's is passed on each time
 *
 * A file is whole and right before its first byte is sent; who asks for what is just being downloaded waits for that. What can't be
 * given (the disk is full, there is no hash, the source is not reached) is redirected to its source: a cache that fails costs time, and
 * no install. apt, for which this is a proxy, gets an error.
 *
 * A request is input of a sandbox's. It chooses among what the host's own indexes have, and nothing that it says is kept. Only processes of the daemon's user, and the helpers of a daemon that is root, are answered.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

struct mirror;

int mirror_start(const char *dir, uint64_t max_bytes, struct mirror **ret, struct err *err);
/* Ends what it does for its clients. NULL is fine; returns NULL. */
struct mirror *mirror_stop(struct mirror *m);

/* Of 127.0.0.1. */
uint16_t mirror_port(const struct mirror *m);
/* Settings of package managers for a guest: {"pip": TEXT, …}; borrowed. */
const json_t *mirror_settings(const struct mirror *m);
