/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of egress policies: what is one, what it fits, and which of them counts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "proto/egress_policy.h"

static struct egress_addr addr(const char *text)
{
	struct egress_addr a;

	if (egress_addr_parse(text, &a) < 0)
		fail_msg("%s is no address", text);
	return a;
}

static struct egress_rule rule(const char *text)
{
	struct egress_rule r;
	struct err err = {0};

	if (egress_rule_parse(text, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

/* ---- addresses ---- */

static void test_addresses(void **state)
{
	static const char *const texts[] = {"1.2.3.4", "0.0.0.0", "255.255.255.255", "::", "::1",
		"2001:db8::7", "64:ff9b::1.2.3.4"};
	static const char *const never[] = {"", "1", "1.2.3", "127.1", "1.2.3.4.5", "01.2.3.4",
		"0x7f.0.0.1", "256.1.1.1", "1.2.3.4 ", " 1.2.3.4", "2130706433", "1:2",
		":::", "fe80::1%lo", "[::1]", "::1/128", "::g", "1.2.3.4:80", "::ffff:1.2.3.256"};
	char text[EGRESS_ADDR_TEXT];
	struct egress_addr a, b;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		a = addr(texts[i]);
		egress_addr_text(&a, text);
		if (i < 6)
			assert_string_equal(text, texts[i]);
		assert_int_equal(egress_addr_is_v4(&a), i < 3);
	}
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		assert_int_equal(egress_addr_parse(never[i], &a), -EINVAL);
	/* One address, however it is written. */
	a = addr("::ffff:1.2.3.4");
	egress_addr_text(&a, text);
	assert_string_equal(text, "1.2.3.4");
	b = egress_addr_v4((const uint8_t[]){1, 2, 3, 4});
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_equal(a.bytes, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\1\2\3\4", 16);
}

static void test_carried(void **state)
{
	static const struct {
		const char *text, *carried;
	} cases[] = {
		{"64:ff9b::a9fe:a9fe", "169.254.169.254"},
		{"2002:a9fe:a9fe::1", "169.254.169.254"},
		{"64:ff9b:1::a9fe:a9fe", NULL},
		{"2003:a9fe:a9fe::1", NULL},
		{"64:ff9b::1:a9fe:a9fe", NULL},
		{"10.0.0.1", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_addr a = addr(cases[i].text), carried, want;

		assert_int_equal(egress_addr_carries_v4(&a, &carried), !!cases[i].carried);
		if (!cases[i].carried)
			continue;
		want = addr(cases[i].carried);
		assert_memory_equal(&carried, &want, sizeof(want));
	}
}

/* ---- the form of rules ---- */

static void test_rules(void **state)
{
	static const struct {
		const char *text, *name, *net;
		unsigned int prefix;
		uint16_t first, last;
		bool subdomains, any;
	} cases[] = {
		{"203.0.113.7", "", "203.0.113.7", 128, 0, 65535},
		{"203.0.113.0/24:443", "", "203.0.113.0", 120, 443, 443},
		{"0.0.0.0/0", "", "0.0.0.0", 96, 0, 65535},
		{"2001:DB8::/32", "", "2001:db8::", 32, 0, 65535},
		{"2001:db8::1:443", "", "2001:db8::1:443", 128, 0, 65535},
		{"[2001:db8::1]:8000-8099", "", "2001:db8::1", 128, 8000, 8099},
		{"[2001:db8::/32]", "", "2001:db8::", 32, 0, 65535},
		{"[2001:db8::/32]:1-65535", "", "2001:db8::", 32, 1, 65535},
		{"::/0", "", "::", 0, 0, 65535},
		{"example.com", "example.com", "::", 0, 0, 65535},
		{"EXAMPLE.com:80-81", "example.com", "::", 0, 80, 81},
		{"*.Example.com:443", "example.com", "::", 0, 443, 443, true},
		{"a-b_c.x1", "a-b_c.x1", "::", 0, 0, 65535},
		{"localhost", "localhost", "::", 0, 0, 65535},
		{"1.2.3.4.example", "1.2.3.4.example", "::", 0, 0, 65535},
		{"*", "", "::", 0, 0, 65535, false, true},
		{"*:443", "", "::", 0, 443, 443, false, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_rule r = rule(cases[i].text);
		struct egress_addr net = addr(cases[i].net);

		assert_string_equal(r.name, cases[i].name);
		assert_memory_equal(&r.net, &net, sizeof(net));
		assert_int_equal(r.prefix, cases[i].prefix);
		assert_int_equal(r.first_port, cases[i].first);
		assert_int_equal(r.last_port, cases[i].last);
		assert_int_equal(r.subdomains, cases[i].subdomains);
		assert_int_equal(r.any, cases[i].any);
	}
	assert_string_equal(rule("EXAMPLE.com").text, "example.com");
}

static void test_no_rules(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "has 1 to 279 characters"},
		/* Addresses that are none, and names that some read as addresses. */
		{"1.2.3", "is no address"},
		{"127.1", "is no address"},
		{"2130706433", "is no address"},
		{"0x7f000001", "is no address"},
		{"0x7f.1", "is no address"},
		{"example.1", "is no address"},
		{"example.0x1", "is no address"},
		{"fe80::1%eth0", "is no address"},
		{"[example.com]:80", "is no address"},
		{"[]", "is no address"},
		{":80", "is no address"},
		/* Names. */
		{".", "is no address"},
		{"example.com.", "is no address"},
		{".example.com", "is no address"},
		{"a..b", "is no address"},
		{"-a.com", "is no address"},
		{"a-.com", "is no address"},
		{"a b.com", "is no address"},
		{"a.com\n", "is no address"},
		{"a.com\nhost-allow *", "is no address"},
		{"b\xC3\xBC"
		 "cher.de",
			"is no address"},
		{"http://example.com", "ports are written as"},
		{"example.com/index", "is no address"},
		{"*example.com", "is no address"},
		{"**", "is no address"},
		{"*.", "is no address"},
		{"*.*.com", "is no address"},
		{"a.*.com", "is no address"},
		{"*.1.2.3.4", "is no address"},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com",
			"is no address"},
		/* Networks. */
		{"10.0.0.1/8", "is an address in a network"},
		{"0.0.0.1/0", "is an address in a network"},
		{"2001:db8::1/32", "is an address in a network"},
		{"10.0.0.0/33", "the length of a network is a number up to 32"},
		{"2001:db8::/129", "the length of a network is a number up to 128"},
		{"10.0.0.0/", "the length of a network"},
		{"10.0.0.0/-1", "the length of a network"},
		{"10.0.0.0/8/8", "the length of a network"},
		{"10.0.0.0/255.0.0.0", "the length of a network"},
		{"10.0.0.0/8 ", "the length of a network"},
		/* Ports. */
		{"1.2.3.4:", "ports are written as"},
		{"1.2.3.4:0", "ports are written as"},
		{"1.2.3.4:65536", "ports are written as"},
		{"1.2.3.4:http", "ports are written as"},
		{"1.2.3.4:-80", "ports are written as"},
		{"1.2.3.4:80-", "ports are written as"},
		{"1.2.3.4:81-80", "ports are written as"},
		{"1.2.3.4:80-81-82", "ports are written as"},
		{"1.2.3.4:80,81", "ports are written as"},
		{"1.2.3.4: 80", "ports are written as"},
		{"1.2.3.4:00000080", "ports are written as"},
		{"*:0", "ports are written as"},
		{"[::1", "ports are written as"},
		{"[::1]80", "ports are written as"},
		{"[::1]:", "ports are written as"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_rule before, r;
		struct err err = {0};

		memset(&r, 0x55, sizeof(r));
		before = r;
		if (egress_rule_parse(cases[i].text, &r, &err) != -EINVAL)
			fail_msg("\"%s\" is taken for a rule", cases[i].text);
		assert_int_equal(err.kind, ERR_INVALID);
		if (!strstr(err.msg, cases[i].why))
			fail_msg("of \"%s\" it is said: %s", cases[i].text, err.msg);
		assert_memory_equal(&r, &before, sizeof(r));
	}
}

/* The longest name with the longest ports is a rule; more is not. */
static void test_length(void **state)
{
	char text[EGRESS_RULE_SIZE + 1] = "";
	struct egress_rule r;

	for (int i = 0; i < 126; i++)
		strcat(text, "a.");
	strcat(text, "b"); /* 253 */
	assert_int_equal(strlen(text), EGRESS_NAME_SIZE - 1);
	r = rule(text);
	assert_string_equal(r.name, text);
	strcat(text, ":10000-65535");
	r = rule(text);
	assert_int_equal(r.last_port, 65535);
	strcpy(text + 253, "b");
	assert_int_equal(egress_rule_parse(text, &r, NULL), -EINVAL);
	memset(text, 'a', EGRESS_RULE_SIZE);
	text[EGRESS_RULE_SIZE] = '\0';
	assert_int_equal(egress_rule_parse(text, &r, NULL), -EINVAL);
}

static void test_lists(void **state)
{
	struct egress_rules rules = {0};
	struct err err = {0};

	for (int i = 0; i < EGRESS_RULES_MAX; i++)
		assert_int_equal(egress_rules_add(&rules, "example.com", &err), 0);
	assert_int_equal(egress_rules_add(&rules, "not a rule", &err), -EINVAL);
	assert_int_equal(egress_rules_add(&rules, "example.com", &err), -E2BIG);
	assert_int_equal(rules.n, EGRESS_RULES_MAX);
	egress_rules_done(&rules);
	assert_null(rules.all);
	assert_int_equal(rules.n, 0);
}

/* ---- what rules may allow ---- */

static void test_can_allow(void **state)
{
	static const struct {
		const char *text;
		bool sandbox, host;
	} cases[] = {
		{"8.8.8.8", true, true},
		{"0.0.0.0/0", true, true},
		{"::/0", true, true},
		{"*", true, true},
		{"*:80", true, true},
		{"example.com", true, true},
		{"2606:2800::/32", true, true},
		/* For the daemon only. */
		{"10.1.2.3", false, true},
		{"10.0.0.0/8", false, true},
		{"10.0.0.0/7", true, true}, /* half of it is public */
		{"172.16.0.0/12:443", false, true},
		{"192.168.0.0/16", false, true},
		{"100.64.0.0/10", false, true},
		{"198.18.0.0/16", false, true},
		{"fd00::/8", false, true},
		{"fec0::1", false, true},
		{"200::/7", false, true},
		{"4000::/16", false, true},
		{"[fc00::1]:80", false, true},
		/* For nobody. */
		{"127.0.0.1", false, false},
		{"127.0.0.0/8", false, false},
		{"0.0.0.0", false, false},
		{"169.254.169.254:80", false, false},
		{"224.0.0.1", false, false},
		{"255.255.255.255", false, false},
		{"168.63.129.16", false, false},
		{"100.100.100.200", false, false},
		{"::1", false, false},
		{"::", false, false},
		{"::7f00:1", false, false},
		{"::ffff:127.0.0.1", false, false},
		{"fe80::/10", false, false},
		{"ff02::1", false, false},
		{"fd00:ec2::254", false, false},
		{"2001::/32", false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_rule r = rule(cases[i].text);
		struct err err = {0};

		if ((egress_rule_can_allow(&r, false, &err) == 0) != cases[i].sandbox)
			fail_msg("%s, of a sandbox: %s", cases[i].text, err.msg);
		if (!cases[i].sandbox) {
			assert_int_equal(err.kind, ERR_INVALID);
			assert_non_null(strstr(err.msg,
				cases[i].host ? "--egress-allow can open it" : "never reach it"));
		}
		if ((egress_rule_can_allow(&r, true, &err) == 0) != cases[i].host)
			fail_msg("%s, of the daemon: %s", cases[i].text, err.msg);
	}
}

/* ---- judging ---- */

struct policy {
	bool internet;
	const char *allow, *deny, *host_allow, *host_deny; /* with blanks in between */
};

static void add_rules(struct egress_rules *rules, const char *list)
{
	char copy[512] = "", *save = NULL;
	struct err err = {0};

	(void)snprintf(copy, sizeof(copy), "%s", list ? list : "");
	for (char *text = strtok_r(copy, " ", &save); text; text = strtok_r(NULL, " ", &save)) {
		if (egress_rules_add(rules, text, &err) < 0)
			fail_msg("%s", err.msg);
	}
}

static struct egress_policy make(const struct policy *from)
{
	struct egress_policy p = {.internet = from->internet};

	add_rules(&p.allow, from->allow);
	add_rules(&p.deny, from->deny);
	add_rules(&p.host_allow, from->host_allow);
	add_rules(&p.host_deny, from->host_deny);
	return p;
}

/* An address, a port and a protocol, and what the resolver said: "93.184.216.34 a.example b.example". */
static struct egress_verdict check_target(const struct policy *from, const char *what,
	struct egress_target t)
{
	struct egress_policy p = make(from);
	struct egress_verdict v;
	const char *names[8];
	char copy[512], *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", what);
	t.addr = addr(strtok_r(copy, " ", &save));
	t.names = names;
	while ((names[t.n_names] = strtok_r(NULL, " ", &save)))
		t.n_names++;
	memset(&v, 0x55, sizeof(v));
	egress_policy_check(&p, &t, &v);
	egress_policy_done(&p);
	assert_int_equal(v.allowed, v.why[0] == '\0');
	if (!v.allowed)
		assert_int_equal(v.names, EGRESS_NAMES_FREE);
	return v;
}

static struct egress_verdict check(const struct policy *from, const char *what, uint16_t port)
{
	return check_target(from, what,
		(struct egress_target){.protocol = EGRESS_TCP, .port = port});
}

static void allowed(const struct policy *from, const char *what, uint16_t port,
	enum egress_names names)
{
	struct egress_verdict v = check(from, what, port);

	if (!v.allowed)
		fail_msg("%s: %s", what, v.why);
	assert_int_equal(v.names, names);
}

static void denied(const struct policy *from, const char *what, uint16_t port, const char *why)
{
	struct egress_verdict v = check(from, what, port);

	if (v.allowed)
		fail_msg("%s is allowed", what);
	assert_string_equal(v.why, why);
}

/* Of each range its first and last address, and their neighbours outside. */
static void test_special_ranges(void **state)
{
	static const struct policy internet = {.internet = true},
				   everything = {.internet = true, .host_allow = "*"};
	static const struct {
		const char *text, *what;
		bool closed;
	} cases[] = {
		{"0.0.0.0", "an address of this machine", true},
		{"0.255.255.255", "an address of this machine", true},
		{"1.0.0.0", NULL},
		{"9.255.255.255", NULL},
		{"10.0.0.0", "a private address"},
		{"10.255.255.255", "a private address"},
		{"11.0.0.0", NULL},
		{"100.63.255.255", NULL},
		{"100.64.0.0", "a carrier's private address"},
		{"100.127.255.255", "a carrier's private address"},
		{"100.128.0.0", NULL},
		{"100.100.100.199", "a carrier's private address"},
		{"100.100.100.200", "a cloud's metadata service", true},
		{"126.255.255.255", NULL},
		{"127.0.0.0", "a loopback address", true},
		{"127.0.0.1", "a loopback address", true},
		{"127.255.255.255", "a loopback address", true},
		{"128.0.0.0", NULL},
		{"168.63.129.15", NULL},
		{"168.63.129.16", "a cloud's metadata service", true},
		{"168.63.129.17", NULL},
		{"169.253.255.255", NULL},
		{"169.254.0.0", "a link-local address, where clouds keep their metadata", true},
		{"169.254.255.255", "a link-local address, where clouds keep their metadata", true},
		{"169.255.0.0", NULL},
		{"172.15.255.255", NULL},
		{"172.16.0.0", "a private address"},
		{"172.31.255.255", "a private address"},
		{"172.32.0.0", NULL},
		{"191.255.255.255", NULL},
		{"192.0.0.0", "a reserved address"},
		{"192.0.0.192", "a cloud's metadata service", true},
		{"192.0.0.255", "a reserved address"},
		{"192.0.1.0", NULL},
		{"192.167.255.255", NULL},
		{"192.168.0.0", "a private address"},
		{"192.168.255.255", "a private address"},
		{"192.169.0.0", NULL},
		{"198.17.255.255", NULL},
		{"198.18.0.0", "a test network's address"},
		{"198.19.255.255", "a test network's address"},
		{"198.20.0.0", NULL},
		{"223.255.255.255", NULL},
		{"224.0.0.0", "a multicast address", true},
		{"239.255.255.255", "a multicast address", true},
		{"240.0.0.0", "a broadcast or reserved address", true},
		{"255.255.255.255", "a broadcast or reserved address", true},

		{"::", "a loopback or reserved address", true},
		{"::1", "a loopback or reserved address", true},
		{"::7f00:1", "a loopback or reserved address", true}, /* IPv4-compatible */
		{"::ffff:ffff", "a loopback or reserved address", true},
		{"::1:0:0", "a reserved address"},
		{"::ffff:0:a00:1", "a reserved address"}, /* IPv4-translated (RFC 2765) */
		{"::ffff:127.0.0.1", "a loopback address", true},
		{"::ffff:10.0.0.1", "a private address"},
		{"::ffff:8.8.8.8", NULL},
		{"64:ff9b::8.8.8.8", NULL},
		{"64:ff9b::127.0.0.1", "a loopback address", true},
		{"64:ff9b::10.0.0.1", "a private address"},
		{"64:ff9b::169.254.169.254",
			"a link-local address, where clouds keep their metadata", true},
		{"64:ff9b:0:1::", "a reserved address"},
		{"64:ff9b:1::", "a local translation address", true},
		{"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "a local translation address", true},
		{"64:ff9b:2::", "a reserved address"},
		{"100::", "a discarded address", true},
		{"100::ffff:ffff:ffff:ffff", "a discarded address", true},
		{"100:0:0:1::", "a reserved address"},
		{"200::1", "a reserved address"}, /* where meshes of tunnels live */
		{"1fff:ffff::", "a reserved address"},
		{"2000::", NULL},
		{"2001::", "a tunnel's address", true},
		{"2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "a tunnel's address", true},
		{"2001:1::", NULL},
		{"2002:808:808::1", NULL},
		{"2002:7f00:1::1", "a loopback address", true},
		{"2002:c0a8:1::1", "a private address"},
		{"2003::", NULL},
		{"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
		{"4000::", "a reserved address"},
		{"8000::", "a reserved address"},
		{"fbff:ffff::", "a reserved address"},
		{"fc00::", "a private address"},
		{"fd00:ec2::254", "a cloud's metadata service", true},
		{"fd00:ec2::255", "a private address"},
		{"fd20:ce::254", "a cloud's metadata service", true},
		{"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a private address"},
		{"fe00::", "a reserved address"},
		{"fe80::", "a link-local address", true},
		{"febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a link-local address", true},
		{"fec0::", "a private address"},
		{"feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a private address"},
		{"ff00::", "a multicast address", true},
		{"ff02::1", "a multicast address", true},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a multicast address", true},
	};
	char why[EGRESS_WHY_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!cases[i].what) {
			allowed(&internet, cases[i].text, 80, EGRESS_NAMES_FREE);
			continue;
		}
		(void)snprintf(why, sizeof(why), "it is %s", cases[i].what);
		denied(&internet, cases[i].text, 80, why);
		if (cases[i].closed)
			denied(&everything, cases[i].text, 80, why);
		else
			allowed(&everything, cases[i].text, 80, EGRESS_NAMES_FREE);
	}
}

static void test_routes(void **state)
{
	static const struct policy internet = {.internet = true},
				   opened = {.internet = true, .host_allow = "8.8.8.0/24:80"},
				   own = {.allow = "8.8.8.8"};
	struct egress_target t = {.protocol = EGRESS_TCP, .port = 80};

	t.route = EGRESS_ROUTE_LINK;
	assert_string_equal(check_target(&internet, "8.8.8.8", t).why,
		"it is on the machine's local network");
	assert_string_equal(check_target(&own, "8.8.8.8", t).why,
		"it is on the machine's local network");
	assert_true(check_target(&opened, "8.8.8.8", t).allowed);
	t.route = EGRESS_ROUTE_OWN;
	assert_string_equal(check_target(&internet, "8.8.8.8", t).why,
		"it is an address of this machine");
	assert_true(check_target(&opened, "8.8.8.8", t).allowed);
	t.port = 81;
	assert_string_equal(check_target(&opened, "8.8.8.8", t).why,
		"it is an address of this machine");
}

static void test_order(void **state)
{
	/* A denial counts more than whatever allows, the daemon's most. */
	denied(&(struct policy){.internet = true, .deny = "8.8.8.8"}, "8.8.8.8", 1,
		"the sandbox's policy denies \"8.8.8.8\"");
	denied(&(struct policy){.allow = "8.8.8.8", .deny = "8.0.0.0/8"}, "8.8.8.8", 1,
		"the sandbox's policy denies \"8.0.0.0/8\"");
	denied(&(struct policy){.host_allow = "8.8.8.8", .deny = "*"}, "8.8.8.8", 1,
		"the sandbox's policy denies \"*\"");
	denied(&(struct policy){.host_allow = "8.8.8.8", .deny = "*", .host_deny = "8.8.8.8:1-9"},
		"8.8.8.8", 9, "the daemon denies \"8.8.8.8:1-9\"");
	denied(&(struct policy){.internet = true, .host_deny = "127.0.0.1"}, "127.0.0.1", 1,
		"the daemon denies \"127.0.0.1\"");
	/* What is closed stays so; what is private is the daemon's to open. */
	denied(&(struct policy){.allow = "127.0.0.1", .host_allow = "127.0.0.1"}, "127.0.0.1", 1,
		"it is a loopback address");
	denied(&(struct policy){.allow = "10.0.0.0/8"}, "10.0.0.1", 1, "it is a private address");
	denied(&(struct policy){.allow = "*"}, "10.0.0.1", 1, "it is a private address");
	allowed(&(struct policy){.host_allow = "10.0.0.0/8"}, "10.0.0.1", 1, EGRESS_NAMES_FREE);
	denied(&(struct policy){.host_allow = "10.0.0.0/8:443"}, "10.0.0.1", 80,
		"it is a private address");
	/* The sandbox's list. */
	allowed(&(struct policy){.allow = "1.1.1.1 8.8.8.8:53"}, "8.8.8.8", 53, EGRESS_NAMES_FREE);
	denied(&(struct policy){.allow = "1.1.1.1 8.8.8.8:53"}, "8.8.8.8", 54,
		"the sandbox's policy does not allow it");
	denied(&(struct policy){0}, "8.8.8.8", 54, "the sandbox's policy does not allow it");
	allowed(&(struct policy){.host_allow = "8.8.8.8"}, "8.8.8.8", 54, EGRESS_NAMES_FREE);
}

/* IPv4 is no part of ::/0: who denies all of IPv6 keeps the rest, and who allows it opens no more. */
static void test_families(void **state)
{
	static const struct policy no_v6 = {.internet = true, .deny = "::/0"},
				   no_v4 = {.internet = true, .deny = "0.0.0.0/0"},
				   only_v6 = {.allow = "::/0"}, only_v4 = {.allow = "0.0.0.0/0"};

	allowed(&no_v6, "8.8.8.8", 80, EGRESS_NAMES_FREE);
	denied(&no_v6, "2606::1", 80, "the sandbox's policy denies \"::/0\"");
	denied(&no_v4, "8.8.8.8", 80, "the sandbox's policy denies \"0.0.0.0/0\"");
	allowed(&no_v4, "2606::1", 80, EGRESS_NAMES_FREE);
	allowed(&only_v6, "2606::1", 80, EGRESS_NAMES_FREE);
	denied(&only_v6, "8.8.8.8", 80, "the sandbox's policy does not allow it");
	denied(&only_v4, "2606::1", 80, "the sandbox's policy does not allow it");
	/* What carries IPv4 is both. */
	denied(&no_v4, "64:ff9b::8.8.8.8", 80, "the sandbox's policy denies \"0.0.0.0/0\"");
	denied(&no_v6, "64:ff9b::8.8.8.8", 80, "the sandbox's policy denies \"::/0\"");
	denied(&(struct policy){.internet = true, .deny = "8.8.8.8"}, "2002:808:808::1", 80,
		"the sandbox's policy denies \"8.8.8.8\"");
	denied(&(struct policy){.internet = true, .deny = "8.8.8.8"}, "::ffff:8.8.8.8", 80,
		"the sandbox's policy denies \"8.8.8.8\"");
}

static void test_names(void **state)
{
	static const struct policy one = {.allow = "example.com"},
				   subs = {.allow = "*.example.com:443"};

	allowed(&one, "8.8.8.8 example.com", 80, EGRESS_NAMES_ALLOWED);
	allowed(&one, "8.8.8.8 other.com example.com", 80, EGRESS_NAMES_ALLOWED);
	denied(&one, "8.8.8.8", 80, "the sandbox's policy does not allow it");
	denied(&one, "8.8.8.8 www.example.com", 80, "the sandbox's policy does not allow it");
	denied(&one, "8.8.8.8 xexample.com", 80, "the sandbox's policy does not allow it");
	denied(&one, "8.8.8.8 example.com.evil", 80, "the sandbox's policy does not allow it");
	allowed(&subs, "8.8.8.8 www.example.com", 443, EGRESS_NAMES_ALLOWED);
	allowed(&subs, "8.8.8.8 a.b.example.com", 443, EGRESS_NAMES_ALLOWED);
	denied(&subs, "8.8.8.8 www.example.com", 80, "the sandbox's policy does not allow it");
	denied(&subs, "8.8.8.8 example.com", 443, "the sandbox's policy does not allow it");
	denied(&subs, "8.8.8.8 xexample.com", 443, "the sandbox's policy does not allow it");
	denied(&subs, "8.8.8.8 .example.com", 443, "the sandbox's policy does not allow it");
	/* A name opens nothing that is not public, whatever address it is given. */
	denied(&one, "10.0.0.1 example.com", 80, "it is a private address");
	denied(&one, "127.0.0.1 example.com", 80, "it is a loopback address");
	/* An address rule asks nothing of the stream. */
	allowed(&(struct policy){.allow = "example.com 8.8.8.8"}, "8.8.8.8 example.com", 80,
		EGRESS_NAMES_FREE);
	/* A name that is denied denies the addresses it has. */
	denied(&(struct policy){.internet = true, .deny = "evil.com"}, "8.8.8.8 evil.com", 80,
		"the sandbox's policy denies \"evil.com\"");
	allowed(&(struct policy){.internet = true, .deny = "evil.com"}, "8.8.8.8 good.com", 80,
		EGRESS_NAMES_FREE);
}

/* A name of the daemon's opens a private address for itself, and narrows nothing that is public. */
static void test_names_of_the_daemon(void **state)
{
	static const struct policy index = {.internet = true, .host_allow = "index.corp"},
				   listed = {.allow = "jenkins.corp 8.8.8.8",
					   .host_allow = "index.corp"};
	char why[EGRESS_WHY_SIZE];
	struct egress_policy p;

	allowed(&index, "10.0.0.1 index.corp", 443, EGRESS_NAMES_OPENED);
	denied(&index, "10.0.0.1 jenkins.corp", 443, "it is a private address");
	allowed(&index, "8.8.8.8 index.corp", 443, EGRESS_NAMES_FREE);
	allowed(&listed, "8.8.8.8 index.corp", 443, EGRESS_NAMES_FREE);
	allowed(&listed, "9.9.9.9 index.corp", 443, EGRESS_NAMES_ALLOWED);
	allowed(&listed, "10.0.0.1 index.corp jenkins.corp", 443, EGRESS_NAMES_OPENED);
	p = make(&listed);
	assert_true(egress_policy_may_show(&p, "index.corp", 443, EGRESS_NAMES_OPENED, why));
	assert_true(egress_policy_may_show(&p, "jenkins.corp", 443, EGRESS_NAMES_ALLOWED, why));
	/* Else a server that has both would serve the other, too. */
	assert_false(egress_policy_may_show(&p, "jenkins.corp", 443, EGRESS_NAMES_OPENED, why));
	assert_string_equal(why, "the sandbox's policy allows this address only for other names");
	egress_policy_done(&p);
}

static void test_protocols(void **state)
{
	static const struct policy names = {.allow = "example.com"},
				   ports = {.allow = "8.8.8.8:53"}, all = {.allow = "8.8.8.8"},
				   evil = {.internet = true, .deny = "8.8.8.8:53 evil.com"};
	struct egress_target udp = {.protocol = EGRESS_UDP, .port = 53};
	struct egress_target icmp = {.protocol = EGRESS_ICMP};

	/* A datagram shows no name. */
	assert_string_equal(check_target(&names, "8.8.8.8 example.com", udp).why,
		"the sandbox's policy does not allow it");
	assert_false(check_target(&names, "8.8.8.8 example.com", icmp).allowed);
	assert_true(check_target(&ports, "8.8.8.8", udp).allowed);
	assert_false(check_target(&evil, "8.8.8.8", udp).allowed);
	assert_false(check_target(&evil, "9.9.9.9 evil.com", udp).allowed);
	assert_false(check_target(&evil, "9.9.9.9 evil.com", icmp).allowed);
	/* An echo has no port. */
	assert_false(check_target(&ports, "8.8.8.8", icmp).allowed);
	assert_true(check_target(&all, "8.8.8.8", icmp).allowed);
	assert_true(check_target(&evil, "8.8.8.8", icmp).allowed);

	assert_string_equal(egress_protocol_name(EGRESS_TCP), "tcp");
	assert_string_equal(egress_protocol_name(EGRESS_UDP), "udp");
	assert_string_equal(egress_protocol_name(EGRESS_ICMP), "icmp");
}

static void test_may_resolve(void **state)
{
	static const struct {
		struct policy policy;
		const char *name, *why; /* NULL: it may */
	} cases[] = {
		{{.internet = true}, "any.example"},
		{{0}, "any.example", "the sandbox's policy does not allow the name"},
		{{.allow = "8.8.8.8 0.0.0.0/1"}, "any.example",
			"the sandbox's policy does not allow the name"},
		/* Who allows all addresses means what has a name, too. */
		{{.allow = "*:443"}, "any.example"},
		{{.allow = "0.0.0.0/0"}, "any.example"},
		{{.allow = "::/0"}, "any.example"},
		{{.allow = "a.example:443"}, "a.example"},
		{{.allow = "a.example"}, "b.a.example",
			"the sandbox's policy does not allow the name"},
		{{.allow = "*.a.example"}, "b.a.example"},
		{{.host_allow = "index.corp"}, "index.corp"},
		{{.internet = true, .deny = "evil.example"}, "evil.example",
			"the sandbox's policy denies \"evil.example\""},
		{{.internet = true, .deny = "*.evil.example"}, "x.evil.example",
			"the sandbox's policy denies \"*.evil.example\""},
		{{.internet = true, .host_deny = "evil.example"}, "evil.example",
			"the daemon denies \"evil.example\""},
		{{.allow = "a.example", .deny = "a.example"}, "a.example",
			"the sandbox's policy denies \"a.example\""},
		/* Only its port 25 is forbidden. */
		{{.internet = true, .deny = "mail.example:25"}, "mail.example"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_policy p = make(&cases[i].policy);
		char why[EGRESS_WHY_SIZE] = "";

		assert_int_equal(egress_policy_may_resolve(&p, cases[i].name, why), !cases[i].why);
		assert_string_equal(why, cases[i].why ? cases[i].why : "");
		egress_policy_done(&p);
	}
}

static void test_may_show(void **state)
{
	static const struct {
		struct policy policy;
		const char *name;
		uint16_t port;
		enum egress_names names;
		const char *why;
	} cases[] = {
		{{.internet = true}, "any.example", 443, EGRESS_NAMES_FREE},
		{{.internet = true}, "", 443, EGRESS_NAMES_FREE},
		{{.internet = true, .deny = "evil.example:443"}, "evil.example", 443,
			EGRESS_NAMES_FREE, "the sandbox's policy denies \"evil.example:443\""},
		{{.internet = true, .deny = "evil.example:443"}, "evil.example", 80,
			EGRESS_NAMES_FREE},
		{{.internet = true, .host_deny = "*.evil.example"}, "a.evil.example", 80,
			EGRESS_NAMES_FREE, "the daemon denies \"*.evil.example\""},
		{{.allow = "a.example:443"}, "a.example", 443, EGRESS_NAMES_ALLOWED},
		{{.allow = "a.example:443"}, "a.example", 80, EGRESS_NAMES_ALLOWED,
			"the sandbox's policy allows this address only for other names"},
		{{.allow = "a.example"}, "b.example", 443, EGRESS_NAMES_ALLOWED,
			"the sandbox's policy allows this address only for other names"},
		{{.allow = "*"}, "a.example", 443, EGRESS_NAMES_ALLOWED,
			"the sandbox's policy allows this address only for other names"},
		{{.allow = "*.a.example", .deny = "b.a.example"}, "b.a.example", 443,
			EGRESS_NAMES_ALLOWED, "the sandbox's policy denies \"b.a.example\""},
		{{.host_allow = "index.corp"}, "index.corp", 443, EGRESS_NAMES_ALLOWED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_policy p = make(&cases[i].policy);
		char why[EGRESS_WHY_SIZE] = "";

		assert_int_equal(egress_policy_may_show(&p, cases[i].name, cases[i].port,
					 cases[i].names, why),
			!cases[i].why);
		assert_string_equal(why, cases[i].why ? cases[i].why : "");
		egress_policy_done(&p);
	}
}

static void test_has_names(void **state)
{
	static const struct {
		struct policy policy;
		bool names;
	} cases[] = {
		{{.internet = true}, false},
		{{.allow = "*", .deny = "10.0.0.0/8", .host_allow = "8.8.8.8", .host_deny = "::1"},
			false},
		{{.allow = "1.1.1.1 a.example"}, true},
		{{.deny = "a.example"}, true},
		{{.host_allow = "a.example"}, true},
		{{.host_deny = "*.example"}, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_policy p = make(&cases[i].policy);

		assert_int_equal(egress_policy_has_names(&p), cases[i].names);
		egress_policy_done(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_carried),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_no_rules),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_can_allow),
		cmocka_unit_test(test_special_ranges),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_of_the_daemon),
		cmocka_unit_test(test_protocols),
		cmocka_unit_test(test_may_resolve),
		cmocka_unit_test(test_may_show),
		cmocka_unit_test(test_has_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
