/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may reach: the rules, and their meaning. No I/O.
 *
 * Theory of operation
 * -------------------
 * A rule names a target and perhaps ports:
 *
 *	203.0.113.7        203.0.113.0/24:443     2001:db8::/32     [2001:db8::1]:8000-8099
 *	example.com        *.example.com:443      *                 (any address)
 *
 * A target is asked about in this order, and the first that says something counts:
 *
 *	1. the daemon's deny rules, then the sandbox's
 *	2. addresses that nobody can open: loopback, link-local, multicast, clouds' metadata
 *	3. the daemon's allow rules
 *	4. addresses that only these open: private ones, those of this machine, those of its local network
 *	5. the sandbox's allow rules, or that all of the internet is allowed
 *
 * A name is no property of an address: anybody may let his name point anywhere. So a rule with a name fits an address that the
 * sandbox's own resolver has answered for that name, and since many names share the address of a content network, the stream
 * itself must then show the name too (enum egress_names; TLS and HTTP do). UDP can't, and is opened by addresses alone.
 *
 * All of it is about what the *host* would do: IPv4 is kept in the form ::ffff:a.b.c.d, and forms of IPv6 that
 * carry an IPv4 address (NAT64, 6to4) are judged by what they carry.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	EGRESS_NAME_SIZE = 254, /* RFC 1035: 253 characters */
	EGRESS_RULE_SIZE = 280, /* the longest name and its ports */
	EGRESS_RULES_MAX = 128, /* in one list */
	EGRESS_WHY_SIZE = 320,
	EGRESS_ADDR_TEXT = 46,
};

/* IPv6; IPv4 as ::ffff:0:0/96. */
struct egress_addr {
	uint8_t bytes[16];
};

struct egress_addr egress_addr_v4(const uint8_t bytes[4]);
bool egress_addr_is_v4(const struct egress_addr *a);
/* Whether an IPv6 address leads to an IPv4 one, by NAT64 (RFC 6052) or 6to4 (RFC 3056), and to which. */
bool egress_addr_carries_v4(const struct egress_addr *a, struct egress_addr *ret);
/* As people write it. */
void egress_addr_text(const struct egress_addr *a, char dst[EGRESS_ADDR_TEXT]);
/* 0 or -EINVAL: dotted quads of four decimal numbers, and RFC 4291. */
int egress_addr_parse(const char *text, struct egress_addr *ret);

enum egress_protocol {
	EGRESS_TCP,
	EGRESS_UDP,
	EGRESS_ICMP, /* echo; has no port */
	_EGRESS_PROTOCOL_MAX,
};
const char *egress_protocol_name(enum egress_protocol p);

struct egress_rule {
	char text[EGRESS_RULE_SIZE]; /* as it was written, in lower case */
	char name[EGRESS_NAME_SIZE]; /* "": an address */
	bool subdomains;             /* of the name, and not the name itself */
	bool any;                    /* "*": any address */
	struct egress_addr net;      /* else; IPv4 is no part of a network of IPv6 */
	unsigned int prefix;         /* 0..128 */
	uint16_t first_port, last_port;
};

/* ERR_INVALID says what is wrong with it. */
int egress_rule_parse(const char *text, struct egress_rule *ret, struct err *err);

struct egress_rules {
	struct egress_rule *all; /* owned */
	size_t n;
};

/* -E2BIG over EGRESS_RULES_MAX. */
int egress_rules_add(struct egress_rules *rules, const char *text, struct err *err);
void egress_rules_done(struct egress_rules *rules);

struct egress_policy {
	bool internet; /* all that is public; else what `allow` says */
	struct egress_rules allow, deny;
	struct egress_rules host_allow, host_deny; /* the daemon's */
};
void egress_policy_done(struct egress_policy *p);

/* How this machine would send to an address, or to what it carries: the nearest counts. */
enum egress_route {
	EGRESS_ROUTE_BEYOND, /* by a gateway */
	EGRESS_ROUTE_LINK,   /* on a network that it is in */
	EGRESS_ROUTE_OWN,    /* it is this machine's */
};

struct egress_target {
	enum egress_protocol protocol;
	struct egress_addr addr;
	uint16_t port;
	enum egress_route route;
	/* Names that the resolver answered with this address; borrowed. */
	const char *const *names;
	size_t n_names;
};

/* Which names a stream may show. */
enum egress_names {
	EGRESS_NAMES_FREE,    /* any that is not denied, or none */
	EGRESS_NAMES_ALLOWED, /* one that is allowed, and it must show one */
	EGRESS_NAMES_OPENED,  /* one that the daemon allows: the address is open to these only */
};

struct egress_verdict {
	bool allowed;
	enum egress_names names;
	char why[EGRESS_WHY_SIZE]; /* of a denial: the rule, for people */
};

void egress_policy_check(const struct egress_policy *p, const struct egress_target *target,
	struct egress_verdict *ret);

/* Whether there are rules with names, for which answers of the resolver are to be kept and streams to be looked into. */
bool egress_rules_have_names(const struct egress_rules *rules);
bool egress_policy_has_names(const struct egress_policy *p);

/* Whether that name may be looked up: a question is a message to whoever owns the name. Lower case, no final dot. */
bool egress_policy_may_resolve(const struct egress_policy *p, const char *name,
	char why[EGRESS_WHY_SIZE]);

/* Whether a stream to that port may show that name. `names`: what egress_policy_check() said of it. */
bool egress_policy_may_show(const struct egress_policy *p, const char *name, uint16_t port,
	enum egress_names names, char why[EGRESS_WHY_SIZE]);

/* What opens addresses of that kind: ERR_INVALID where a rule of a sandbox (`host`: of the daemon) allows what it can't open. */
int egress_rule_can_allow(const struct egress_rule *rule, bool host, struct err *err);
