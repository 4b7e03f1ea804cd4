/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into what a sandbox sends on a TCP connection, for the name that it asks for. No I/O.
 *
 * Theory of operation
 * -------------------
 * Many names share one address in a content network, which tells them apart by what the client says: by the server name in
 * the ClientHello of TLS (RFC 6066), by Host or the request's target in HTTP (RFC 9112). So that is looked for:
 *
 *	TLS	the bytes are held back until the ClientHello is whole, and one name is said in it;
 *	else	they are read by lines: whatever line looks like a Host field or a request with an absolute target must show an
 *		allowed name, in any request of the connection. That may hit a line of an upload, and is meant to: this file
 *		does not know where a body ends, and one that knew would have to agree about that with every server. For
 *		the same reason it forgives what some server forgives: blanks, a CR alone, methods of any letters.
 *
 * Where a connection stands on a name alone (`names`), a ClientHello without one, HTTP without Host, and what is neither TLS
 * on port 443 nor HTTP on port 80 are refused. Other protocols show no name, and go by what the resolver answered.
 *
 * What TLS hides is not seen: a server that takes requests for other names on a connection made for its own serves them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/egress_policy.h"

enum {
	PEEK_HELLO_MAX = 32 << 10, /* held back; with post-quantum keys a ClientHello takes 2 KiB */
	PEEK_WORD_MAX = 64,        /* kept of a line's first word */
	PEEK_LINE_MAX = 1024,      /* and of all of it */
};

enum peek_verdict {
	PEEK_HOLD,   /* nothing goes on yet */
	PEEK_PASS,   /* all so far goes on, and the next bytes are for peek_feed() too */
	PEEK_DONE,   /* all so far goes on, and the rest need not be looked at */
	PEEK_REFUSE, /* the connection ends */
};

struct peek {
	const struct egress_policy *policy; /* borrowed */
	uint16_t port;
	enum egress_names names;
	bool begun, tls;
	/* TLS: */
	uint8_t *held; /* owned; PEEK_HELLO_MAX bytes */
	size_t held_len;
	/* Lines: */
	char line[PEEK_LINE_MAX]; /* its blanks are one ' ' each, and none leads */
	size_t line_len;
	bool cut;   /* there was more */
	bool blank; /* it is no empty line, */
	bool first; /* and none before it was */
	bool in_head, has_host, host_folds;
};

void peek_init(struct peek *p, const struct egress_policy *policy, uint16_t port,
	enum egress_names names);
void peek_done(struct peek *p);

/* The next bytes. `held` of the struct has what was held back before them. */
enum peek_verdict peek_feed(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE]);
