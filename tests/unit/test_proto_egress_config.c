/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's text for an egress helper: what it sets, and that a word which is not understood is no small matter. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/macros.h"
#include "proto/egress_config.h"

static void test_all(void **state)
{
	struct egress_config c = {0};
	struct err err = {0};
	char text[EGRESS_ADDR_TEXT];

	assert_int_equal(egress_config_parse("internet yes\n"
					     "allow a.example\n"
					     "allow b.example:443\n"
					     "deny 8.8.8.8\n"
					     "host-allow 10.0.0.0/8\n"
					     "host-deny *.evil.example\n"
					     "resolver 192.0.2.1\n"
					     "resolver 2001:db8::53\n"
					     "resolver 192.0.2.2\n"
					     "mirror 3141\n"
					     "rate 1048576\n",
				 &c, &err),
		0);
	assert_true(c.policy.internet);
	assert_int_equal(c.policy.allow.n, 2);
	assert_string_equal(c.policy.allow.all[1].text, "b.example:443");
	assert_string_equal(c.policy.deny.all[0].text, "8.8.8.8");
	assert_string_equal(c.policy.host_allow.all[0].text, "10.0.0.0/8");
	assert_string_equal(c.policy.host_deny.all[0].text, "*.evil.example");
	/* Those of IPv6 are left out. */
	assert_int_equal(c.n_resolvers, 2);
	egress_addr_text(&c.resolvers[1], text);
	assert_string_equal(text, "192.0.2.2");
	assert_int_equal(c.mirror_port, 3141);
	assert_int_equal(c.rate, 1048576);
	egress_config_done(&c);
	assert_int_equal(c.n_resolvers, 0);
	assert_null(c.policy.allow.all);
}

static void test_least(void **state)
{
	struct egress_config c = {0};

	assert_int_equal(egress_config_parse("internet no", &c, NULL), 0);
	assert_false(c.policy.internet);
	assert_int_equal(c.mirror_port, 0);
	assert_int_equal(c.rate, 0);
	assert_int_equal(egress_config_parse("", &c, NULL), 0);
	egress_config_done(&c);
}

/* More resolvers than the guest has addresses for are no error: the host may have any number. */
static void test_many_resolvers(void **state)
{
	struct egress_config c = {0};
	struct err err = {0};

	assert_int_equal(egress_config_parse("resolver 192.0.2.1\nresolver 192.0.2.2\n"
					     "resolver 192.0.2.3\nresolver 192.0.2.4\n",
				 &c, &err),
		0);
	assert_int_equal(c.n_resolvers, GUEST_NET_RESOLVERS_MAX);
	egress_config_done(&c);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"internet", "\"internet\" has no value"},
		{"internet maybe", "\"internet maybe\" is nothing that can be set"},
		{"internet ", "nothing that can be set"},
		{"internet yes\nforbid a.example",
			"\"forbid a.example\" is nothing that can be set"},
		{"Allow a.example", "nothing that can be set"},
		{"allow ", "a rule has 1 to"},
		{"allow a b", "is no address"},
		{"deny 10.0.0.1/8", "is an address in a network"},
		{"host-allow :", "ports are written as"},
		{"host-deny 1.2.3.4:99999", "ports are written as"},
		{"resolver localhost", "\"localhost\" is no address"},
		{"mirror 0", "nothing that can be set"},
		{"mirror 65536", "nothing that can be set"},
		{"rate -1", "nothing that can be set"},
		{"rate 1k", "nothing that can be set"},
		{"rate 1099511627777", "nothing that can be set"},
		{"rate 9223372036854775807", "nothing that can be set"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_config c = {0};
		struct err err = {0};

		assert_int_equal(egress_config_parse(cases[i].text, &c, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_INVALID);
		if (!strstr(err.msg, cases[i].why))
			fail_msg("of \"%s\" it is said: %s", cases[i].text, err.msg);
		egress_config_done(&c);
	}
}

/* Full lists of the longest rules fit into what a helper takes. */
static void test_largest(void **state)
{
	static const char *const words[] = {"allow", "deny", "host-allow", "host-deny"};
	_cleanup_buf_ struct buf text = buf_init(EGRESS_CONFIG_MAX);
	struct egress_config c = {0};
	struct err err = {0};
	char rule[EGRESS_RULE_SIZE] = "";

	for (int i = 0; i < 126; i++)
		strcat(rule, "a.");
	strcat(rule, "b:10000-65535");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (int n = 0; n < EGRESS_RULES_MAX; n++)
			assert_int_equal(buf_appendf(&text, "%s %s\n", words[i], rule), 0);
	}
	assert_int_equal(buf_appendf(&text, "resolver 255.255.255.255\nrate 1099511627776\n"), 0);
	assert_int_equal(egress_config_parse(text.data, &c, &err), 0);
	assert_int_equal(c.policy.host_deny.n, EGRESS_RULES_MAX);
	egress_config_done(&c);
	assert_int_equal(buf_appendf(&text, "deny x.example\n"), 0);
	assert_int_equal(egress_config_parse(text.data, &c, &err), -E2BIG);
	egress_config_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_many_resolvers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
