/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests are for a server in a sandbox, and which part of their target is the server's:
 *
 *	/v1/sandboxes/{id}/proxy/{port}/…    by path
 *	/v1/p/{token}/…                      by a link (preview.h)
 *	{port}-{id}.anything                 by host name: the whole target
 *
 * The target is not decoded: a server reads it in its own way. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct proxied {
	char *route;       /* owned; the path under which the table of routes has it */
	size_t prefix_len; /* of the target: what is ours. "/", "?" or nothing follows it */
	bool by_host;      /* the prefix is empty, and the answer's origin is the server's alone */
};

/* `host` is the header, or NULL. */
bool proxied_find(const char *host, const char *target, struct proxied *ret);
