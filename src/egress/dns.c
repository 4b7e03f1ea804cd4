/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers of the domain name system. */
#include "egress/dns.h"

#include <arpa/nameser.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

enum { MESSAGE_MAX = 65535, RECORDS_MAX = 64 };

/* In lower case; what has a dot or another special character within a label is left escaped, so that it fits no rule. */
static void copy_name(char dst[EGRESS_NAME_SIZE], const char *name)
{
	size_t len = strnlen(name, EGRESS_NAME_SIZE - 1);

	for (size_t i = 0; i < len; i++)
		dst[i] = (char)tolower((unsigned char)name[i]);
	if (len > 0 && dst[len - 1] == '.')
		len--;
	dst[len] = '\0';
}

static int parse(const uint8_t *data, size_t len, bool response, ns_msg *ret,
	char ret_name[EGRESS_NAME_SIZE])
{
	ns_rr question;

	if (len > MESSAGE_MAX || ns_initparse(data, (int)len, ret) < 0 ||
		ns_msg_getflag(*ret, ns_f_qr) != response ||
		ns_msg_getflag(*ret, ns_f_opcode) != ns_o_query ||
		ns_msg_count(*ret, ns_s_qd) != 1 || ns_parserr(ret, ns_s_qd, 0, &question) < 0 ||
		strlen(ns_rr_name(question)) >= EGRESS_NAME_SIZE)
		return -EBADMSG;
	copy_name(ret_name, ns_rr_name(question));
	return 0;
}

int dns_question(const uint8_t *data, size_t len, char ret[EGRESS_NAME_SIZE])
{
	ns_msg msg;

	return parse(data, len, false, &msg, ret);
}

void dns_known_done(struct dns_known *known)
{
	free(known->entries);
	known->entries = NULL;
}

/* The entry of that pair, else a free one, else the oldest. */
static struct dns_entry *entry_for(struct dns_known *known, const struct egress_addr *addr,
	const char *name)
{
	struct dns_entry *oldest = &known->entries[0];

	for (size_t i = 0; i < DNS_KNOWN_MAX; i++) {
		struct dns_entry *e = &known->entries[i];

		if (e->until_ms && memcmp(&e->addr, addr, sizeof(*addr)) == 0 &&
			strcmp(e->name, name) == 0)
			return e;
		if (e->until_ms < oldest->until_ms)
			oldest = e;
	}
	return oldest;
}

static void remember(struct dns_known *known, const struct egress_addr *addr, const char *name,
	int64_t now_ms)
{
	struct dns_entry *e = entry_for(known, addr, name);

	e->addr = *addr;
	e->until_ms = now_ms + DNS_KEPT_MS;
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
}

void dns_learn(struct dns_known *known, const uint8_t *data, size_t len, int64_t now_ms)
{
	char name[EGRESS_NAME_SIZE];
	ns_msg msg;
	ns_rr rr;

	if (parse(data, len, true, &msg, name) < 0)
		return;
	if (!known->entries)
		known->entries = xcalloc(DNS_KNOWN_MAX, sizeof(*known->entries));
	/* Aliases are followed by the resolver: whatever addresses are there belong to the name. */
	for (int i = 0; i < MIN(ns_msg_count(msg, ns_s_an), RECORDS_MAX); i++) {
		struct egress_addr addr;

		if (ns_parserr(&msg, ns_s_an, i, &rr) < 0)
			return;
		if (ns_rr_type(rr) == ns_t_a && ns_rr_rdlen(rr) == 4) {
			addr = egress_addr_v4(ns_rr_rdata(rr));
		} else if (ns_rr_type(rr) == ns_t_aaaa && ns_rr_rdlen(rr) == sizeof(addr.bytes)) {
			memcpy(addr.bytes, ns_rr_rdata(rr), sizeof(addr.bytes));
		} else {
			continue;
		}
		remember(known, &addr, name, now_ms);
	}
}

size_t dns_names(const struct dns_known *known, const struct egress_addr *addr, int64_t now_ms,
	const char *ret[DNS_NAMES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; known->entries && i < DNS_KNOWN_MAX && n < DNS_NAMES_MAX; i++) {
		const struct dns_entry *e = &known->entries[i];

		if (e->until_ms > now_ms && memcmp(&e->addr, addr, sizeof(*addr)) == 0)
			ret[n++] = e->name;
	}
	return n;
}
