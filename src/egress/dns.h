/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What passes between a sandbox and the resolver: questions are judged by their name, and the addresses of the answers are
 * remembered for the rules that have names.
 *
 * The parsing is that of the C library (arpa/nameser.h). Not for sharing between threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/egress_policy.h"

enum {
	DNS_KNOWN_MAX = 1024,
	DNS_NAMES_MAX = 16, /* of one address, that are looked at */
	/* A program goes on using an address for as long as it likes; a stream must show the name anyway. */
	DNS_KEPT_MS = 3600 * 1000,
};

/* The name that a message asks about, in lower case. -EBADMSG for anything but a query of one name. */
int dns_question(const uint8_t *data, size_t len, char ret[EGRESS_NAME_SIZE]);

struct dns_known {
	struct dns_entry {
		struct egress_addr addr;
		int64_t until_ms; /* monotonic; 0: free */
		char name[EGRESS_NAME_SIZE];
	} * entries; /* owned; DNS_KNOWN_MAX */
};

void dns_known_done(struct dns_known *known);

/* Remembers the addresses that an answer has for its name; what is no such answer is ignored. */
void dns_learn(struct dns_known *known, const uint8_t *data, size_t len, int64_t now_ms);

/* The names that are known for an address, into ret; returns how many. They live until the next dns_learn(). */
size_t dns_names(const struct dns_known *known, const struct egress_addr *addr, int64_t now_ms,
	const char *ret[DNS_NAMES_MAX]);
