/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach: rules are parsed and targets judged. */
#include "proto/egress_policy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"

/* ---- addresses ---- */

static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

struct egress_addr egress_addr_v4(const uint8_t bytes[4])
{
	struct egress_addr a;

	memcpy(a.bytes, mapped, sizeof(mapped));
	memcpy(a.bytes + sizeof(mapped), bytes, 4);
	return a;
}

bool egress_addr_is_v4(const struct egress_addr *a)
{
	return memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
}

void egress_addr_text(const struct egress_addr *a, char dst[EGRESS_ADDR_TEXT])
{
	/* The buffer is large enough for any. */
	if (egress_addr_is_v4(a))
		(void)inet_ntop(AF_INET, a->bytes + sizeof(mapped), dst, EGRESS_ADDR_TEXT);
	else
		(void)inet_ntop(AF_INET6, a->bytes, dst, EGRESS_ADDR_TEXT);
}

int egress_addr_parse(const char *text, struct egress_addr *ret)
{
	uint8_t v4[4];

	if (inet_pton(AF_INET, text, v4) == 1)
		*ret = egress_addr_v4(v4);
	else if (inet_pton(AF_INET6, text, ret->bytes) != 1)
		return -EINVAL;
	return 0;
}

static bool in_net(const struct egress_addr *a, const struct egress_addr *net, unsigned int prefix)
{
	unsigned int whole = prefix / 8, rest = prefix % 8;

	if (egress_addr_is_v4(a) != egress_addr_is_v4(net))
		return false;
	if (memcmp(a->bytes, net->bytes, whole) != 0)
		return false;
	return rest == 0 || (a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest) == 0;
}

/* What the registries of special addresses have (IANA; clouds' documentation for the metadata services). The first that fits counts. */
struct special {
	const char *net;
	unsigned int prefix;
	bool closed; /* to the daemon's rules too */
	const char *what;
};
static const struct special specials[] = {
	{"169.254.0.0", 16, true, "a link-local address, where clouds keep their metadata"},
	{"168.63.129.16", 32, true, "a cloud's metadata service"},
	{"100.100.100.200", 32, true, "a cloud's metadata service"},
	{"192.0.0.192", 32, true, "a cloud's metadata service"},
	{"127.0.0.0", 8, true, "a loopback address"},
	{"0.0.0.0", 8, true, "an address of this machine"},
	{"224.0.0.0", 4, true, "a multicast address"},
	{"240.0.0.0", 4, true, "a broadcast or reserved address"},
	{"10.0.0.0", 8, false, "a private address"},
	{"172.16.0.0", 12, false, "a private address"},
	{"192.168.0.0", 16, false, "a private address"},
	{"100.64.0.0", 10, false, "a carrier's private address"},
	{"192.0.0.0", 24, false, "a reserved address"},
	{"198.18.0.0", 15, false, "a test network's address"},
	{"fd00:ec2::254", 128, true, "a cloud's metadata service"},
	{"fd20:ce::254", 128, true, "a cloud's metadata service"},
	{"fe80::", 10, true, "a link-local address"},
	{"ff00::", 8, true, "a multicast address"},
	{"::", 96, true, "a loopback or reserved address"},
	{"100::", 64, true, "a discarded address"},
	{"64:ff9b:1::", 48, true, "a local translation address"},
	{"2001::", 32, true, "a tunnel's address"},
	{"fc00::", 7, false, "a private address"},
	{"fec0::", 10, false, "a private address"},
	/* All but 2000::/3, from which public addresses are given out; some networks of their own take others. */
	{"::", 3, false, "a reserved address"},
	{"4000::", 2, false, "a reserved address"},
	{"8000::", 1, false, "a reserved address"},
};

bool egress_addr_carries_v4(const struct egress_addr *a, struct egress_addr *ret)
{
	static const uint8_t nat64[12] = {0x00, 0x64, 0xFF, 0x9B};

	if (memcmp(a->bytes, nat64, sizeof(nat64)) == 0)
		*ret = egress_addr_v4(a->bytes + 12);
	else if (a->bytes[0] == 0x20 && a->bytes[1] == 0x02)
		*ret = egress_addr_v4(a->bytes + 2);
	else
		return false;
	return true;
}

static const struct special *special_of(const struct egress_addr *a)
{
	struct egress_addr carried = *a;

	(void)egress_addr_carries_v4(a, &carried);
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
		struct egress_addr net = {0};
		unsigned int prefix = specials[i].prefix;

		(void)egress_addr_parse(specials[i].net, &net); /* the table is right */
		if (egress_addr_is_v4(&net))
			prefix += 96;
		if (in_net(&carried, &net, prefix))
			return &specials[i];
	}
	return NULL;
}

/* ---- rules ---- */

static bool is_label(const char *s, size_t len)
{
	if (len == 0 || len > 63 || s[0] == '-' || s[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
	}
	return true;
}

/* A host name whose last label is no number, for such are read as addresses by some: "127.1", "0x7f000001". */
static bool is_name(const char *s)
{
	const char *last = s;

	for (const char *label = s;; label = last) {
		size_t len = strcspn(label, ".");

		if (!is_label(label, len))
			return false;
		if (!label[len])
			break;
		last = label + len + 1;
	}
	return isalpha((unsigned char)last[0]);
}

static int parse_ports(const char *text, struct egress_rule *rule)
{
	char first[8];
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);
	uint64_t from, to;

	if (len >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, len);
	first[len] = '\0';
	if (parse_u64(first, 1, UINT16_MAX, &from) < 0)
		return -EINVAL;
	to = from;
	if (dash && parse_u64(dash + 1, from, UINT16_MAX, &to) < 0)
		return -EINVAL;
	rule->first_port = (uint16_t)from;
	rule->last_port = (uint16_t)to;
	return 0;
}

/* Takes the ports off the end of `text`. An IPv6 address has colons of its own and wears brackets where ports follow. */
static int split_ports(char *text, char **ret_target, struct egress_rule *rule)
{
	char *colon = strrchr(text, ':'), *close;

	*ret_target = text;
	rule->first_port = 0;
	rule->last_port = UINT16_MAX;
	if (text[0] == '[') {
		close = strchr(text, ']');
		if (!close || (close[1] && close[1] != ':'))
			return -EINVAL;
		*ret_target = text + 1;
		*close = '\0';
		return close[1] ? parse_ports(close + 2, rule) : 0;
	}
	if (!colon || strchr(text, ':') != colon)
		return 0;
	*colon = '\0';
	return parse_ports(colon + 1, rule);
}

static bool has_bits_behind(const struct egress_addr *a, unsigned int prefix)
{
	for (unsigned int i = prefix; i < 128; i++) {
		if (a->bytes[i / 8] & 0x80 >> i % 8)
			return true;
	}
	return false;
}

static int parse_net(char *target, struct egress_rule *rule, struct err *err)
{
	char *slash = strchr(target, '/');
	unsigned int v4_bits;
	uint64_t prefix = 128;

	if (slash)
		*slash = '\0';
	if (egress_addr_parse(target, &rule->net) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"%s\" is no address, network or host name", rule->text);
	v4_bits = egress_addr_is_v4(&rule->net) ? 96 : 0;
	if (slash) {
		if (parse_u64(slash + 1, 0, 128 - v4_bits, &prefix) < 0)
			return err_set(err, ERR_INVALID, -EINVAL,
				"\"%s\": the length of a network is a number up to %u", rule->text,
				128 - v4_bits);
		prefix += v4_bits;
	}
	rule->prefix = (unsigned int)prefix;
	if (has_bits_behind(&rule->net, rule->prefix))
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"%s\" is an address in a network: write the network's first address, or leave out the length",
			rule->text);
	return 0;
}

int egress_rule_parse(const char *text, struct egress_rule *ret, struct err *err)
{
	struct egress_rule rule = {0};
	char copy[EGRESS_RULE_SIZE] = "", *target;
	const char *name;
	size_t len = strlen(text);

	if (len == 0 || len >= sizeof(copy))
		return err_set(err, ERR_INVALID, -EINVAL, "a rule has 1 to %zu characters",
			sizeof(copy) - 1);
	for (size_t i = 0; i <= len; i++)
		copy[i] = rule.text[i] = (char)tolower((unsigned char)text[i]);
	if (split_ports(copy, &target, &rule) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"%s\": ports are written as \":443\" or \":8000-8099\" behind the target",
			rule.text);
	name = target;
	if (strcmp(target, "*") == 0) {
		rule.any = true;
		*ret = rule;
		return 0;
	}
	if (name[0] == '*' && name[1] == '.') {
		rule.subdomains = true;
		name += 2;
	}
	if (target == copy && strlen(name) < sizeof(rule.name) && is_name(name)) {
		(void)snprintf(rule.name, sizeof(rule.name), "%s", name);
	} else {
		int r = parse_net(target, &rule, err);

		if (r < 0)
			return r;
	}
	*ret = rule;
	return 0;
}

/* Whether the rule fits nothing but addresses of that kind. */
static bool is_within(const struct egress_rule *rule, const struct special *s)
{
	struct egress_addr net = {0};
	unsigned int prefix = s->prefix;

	(void)egress_addr_parse(s->net, &net);
	if (egress_addr_is_v4(&net))
		prefix += 96;
	return !rule->name[0] && !rule->any && rule->prefix >= prefix &&
		in_net(&rule->net, &net, prefix);
}

int egress_rule_can_allow(const struct egress_rule *rule, bool host, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
		if (!is_within(rule, &specials[i]) || (host && !specials[i].closed))
			continue;
		return err_set(err, ERR_INVALID, -EINVAL, "\"%s\" is %s: %s", rule->text,
			specials[i].what,
			specials[i].closed ? "sandboxes can never reach it"
					   : "only the daemon's --egress-allow can open it");
	}
	return 0;
}

int egress_rules_add(struct egress_rules *rules, const char *text, struct err *err)
{
	struct egress_rule rule;
	int r = egress_rule_parse(text, &rule, err);

	if (r < 0)
		return r;
	if (rules->n == EGRESS_RULES_MAX)
		return err_set(err, ERR_INVALID, -E2BIG, "a list has at most %d rules",
			EGRESS_RULES_MAX);
	if (!rules->all)
		rules->all = xcalloc(EGRESS_RULES_MAX, sizeof(rule));
	rules->all[rules->n++] = rule;
	return 0;
}

void egress_rules_done(struct egress_rules *rules)
{
	free(rules->all);
	*rules = (struct egress_rules){0};
}

void egress_policy_done(struct egress_policy *p)
{
	egress_rules_done(&p->allow);
	egress_rules_done(&p->deny);
	egress_rules_done(&p->host_allow);
	egress_rules_done(&p->host_deny);
}

/* ---- judging ---- */

static const char *const protocol_names[_EGRESS_PROTOCOL_MAX] = {
	[EGRESS_TCP] = "tcp",
	[EGRESS_UDP] = "udp",
	[EGRESS_ICMP] = "icmp",
};

const char *egress_protocol_name(enum egress_protocol p)
{
	return protocol_names[p];
}

static bool fits_name(const struct egress_rule *rule, const char *name)
{
	size_t len = strlen(name), suffix = strlen(rule->name);

	if (!rule->name[0])
		return false;
	if (!rule->subdomains)
		return strcmp(name, rule->name) == 0;
	return len > suffix + 1 && name[len - suffix - 1] == '.' &&
		strcmp(name + len - suffix, rule->name) == 0;
}

static bool fits_port(const struct egress_rule *rule, const struct egress_target *t)
{
	/* An echo has no port: a rule that names some is not about it. */
	if (t->protocol == EGRESS_ICMP)
		return rule->first_port == 0;
	return t->port >= rule->first_port && t->port <= rule->last_port;
}

static bool fits_address(const struct egress_rule *rule, const struct egress_target *t)
{
	struct egress_addr carried;

	if (rule->name[0])
		return false;
	return rule->any || in_net(&t->addr, &rule->net, rule->prefix) ||
		(egress_addr_carries_v4(&t->addr, &carried) &&
			in_net(&carried, &rule->net, rule->prefix));
}

static bool fits_some_name(const struct egress_rule *rule, const struct egress_target *t)
{
	for (size_t i = 0; i < t->n_names; i++) {
		if (fits_name(rule, t->names[i]))
			return true;
	}
	return false;
}

static const struct egress_rule *find(const struct egress_rules *rules,
	const struct egress_target *t, bool by_name)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct egress_rule *rule = &rules->all[i];

		if (fits_port(rule, t) &&
			(by_name ? fits_some_name(rule, t) : fits_address(rule, t)))
			return rule;
	}
	return NULL;
}

static bool denies(const struct egress_rules *rules, const char *whose,
	const struct egress_target *t, struct egress_verdict *ret)
{
	const struct egress_rule *rule = find(rules, t, false);

	if (!rule)
		rule = find(rules, t, true);
	if (rule)
		(void)snprintf(ret->why, sizeof(ret->why), "%s denies \"%s\"", whose, rule->text);
	return rule;
}

static const char daemon_text[] = "the daemon";
static const char policy_text[] = "the sandbox's policy";

void egress_policy_check(const struct egress_policy *p, const struct egress_target *t,
	struct egress_verdict *ret)
{
	const struct special *special = special_of(&t->addr);
	bool open = !special && t->route == EGRESS_ROUTE_BEYOND;

	*ret = (struct egress_verdict){0};
	if (denies(&p->host_deny, daemon_text, t, ret) || denies(&p->deny, policy_text, t, ret))
		return;
	if (special && special->closed) {
		(void)snprintf(ret->why, sizeof(ret->why), "it is %s", special->what);
		return;
	}
	/* Rules with addresses are preferred, for they ask nothing of the stream. */
	ret->allowed = find(&p->host_allow, t, false) ||
		(open && (p->internet || find(&p->allow, t, false)));
	if (ret->allowed)
		return;
	ret->allowed = t->protocol == EGRESS_TCP &&
		(find(&p->host_allow, t, true) || (open && find(&p->allow, t, true)));
	if (ret->allowed)
		ret->names = open ? EGRESS_NAMES_ALLOWED : EGRESS_NAMES_OPENED;
	else if (open)
		(void)snprintf(ret->why, sizeof(ret->why), "%s does not allow it", policy_text);
	else
		(void)snprintf(ret->why, sizeof(ret->why), "it is %s",
			special                                ? special->what
				: t->route == EGRESS_ROUTE_OWN ? "an address of this machine"
							       : "on the machine's local network");
}

bool egress_rules_have_names(const struct egress_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		if (rules->all[i].name[0])
			return true;
	}
	return false;
}

bool egress_policy_has_names(const struct egress_policy *p)
{
	return egress_rules_have_names(&p->allow) || egress_rules_have_names(&p->deny) ||
		egress_rules_have_names(&p->host_allow) || egress_rules_have_names(&p->host_deny);
}

/* The first rule with a name that fits; a port of 0 fits any. */
static const struct egress_rule *find_name(const struct egress_rules *rules, const char *name,
	uint16_t port)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct egress_rule *rule = &rules->all[i];

		if (fits_name(rule, name) &&
			(port == 0 || (port >= rule->first_port && port <= rule->last_port)))
			return rule;
	}
	return NULL;
}

static bool denies_name(const struct egress_policy *p, const char *name, uint16_t port,
	char why[EGRESS_WHY_SIZE])
{
	const char *whose = daemon_text;
	const struct egress_rule *rule = find_name(&p->host_deny, name, port);

	if (!rule) {
		whose = policy_text;
		rule = find_name(&p->deny, name, port);
	}
	if (rule)
		(void)snprintf(why, EGRESS_WHY_SIZE, "%s denies \"%s\"", whose, rule->text);
	return rule;
}

/* Whether some rule is about all addresses: whoever allows them means what has a name, too. */
static bool allows_everywhere(const struct egress_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct egress_rule *rule = &rules->all[i];
		unsigned int all = egress_addr_is_v4(&rule->net) ? 96 : 0;

		if (!rule->name[0] && rule->prefix == all)
			return true;
	}
	return false;
}

bool egress_policy_may_resolve(const struct egress_policy *p, const char *name,
	char why[EGRESS_WHY_SIZE])
{
	/* A rule with a port forbids that port; others of the host may be wanted. */
	const struct egress_rules *denied[] = {&p->host_deny, &p->deny};

	for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
		const struct egress_rule *rule = find_name(denied[i], name, 0);

		if (rule && rule->first_port == 0) {
			(void)snprintf(why, EGRESS_WHY_SIZE, "%s denies \"%s\"",
				i == 0 ? daemon_text : policy_text, rule->text);
			return false;
		}
	}
	if (p->internet || allows_everywhere(&p->allow) || find_name(&p->allow, name, 0) ||
		find_name(&p->host_allow, name, 0))
		return true;
	(void)snprintf(why, EGRESS_WHY_SIZE, "%s does not allow the name", policy_text);
	return false;
}

bool egress_policy_may_show(const struct egress_policy *p, const char *name, uint16_t port,
	enum egress_names names, char why[EGRESS_WHY_SIZE])
{
	if (denies_name(p, name, port, why))
		return false;
	if (names == EGRESS_NAMES_FREE || find_name(&p->host_allow, name, port) ||
		(names == EGRESS_NAMES_ALLOWED && find_name(&p->allow, name, port)))
		return true;
	(void)snprintf(why, EGRESS_WHY_SIZE, "%s allows this address only for other names",
		policy_text);
	return false;
}
