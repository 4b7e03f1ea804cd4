/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers of the domain name system: what is asked about, and which addresses are remembered for it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "egress/dns.h"

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_TXT = 16, TYPE_AAAA = 28, QR = 0x8000, NOW = 1000 };

/* ---- messages ---- */

struct message {
	uint8_t bytes[66000];
	size_t len;
};

static void add(struct message *m, const void *data, size_t len)
{
	assert_true(m->len + len <= sizeof(m->bytes));
	memcpy(m->bytes + m->len, data, len);
	m->len += len;
}

static void add_u16(struct message *m, unsigned int v)
{
	add(m, (const uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

/* Labels by their dots. */
static void add_name(struct message *m, const char *name)
{
	while (*name) {
		size_t len = strcspn(name, ".");

		add(m, &(uint8_t){(uint8_t)len}, 1);
		add(m, name, len);
		name += len + (name[len] == '.');
	}
	add(m, "", 1);
}

static void begin(struct message *m, unsigned int flags, unsigned int questions,
	unsigned int answers)
{
	m->len = 0;
	add_u16(m, 0x1234);
	add_u16(m, flags);
	add_u16(m, questions);
	add_u16(m, answers);
	add_u16(m, 0);
	add_u16(m, 0);
}

static void ask(struct message *m, unsigned int flags, const char *name, unsigned int answers)
{
	begin(m, flags, 1, answers);
	add_name(m, name);
	add_u16(m, TYPE_A);
	add_u16(m, 1);
}

/* A record; without a name, of the question's by compression. */
static void answer(struct message *m, const char *name, unsigned int type, const void *data,
	size_t len)
{
	if (name)
		add_name(m, name);
	else
		add_u16(m, 0xC00C);
	add_u16(m, type);
	add_u16(m, 1);
	add(m, "\0\0\0\x3C", 4);
	add_u16(m, (unsigned int)len);
	add(m, data, len);
}

/* Reading behind the message is to be seen. */
static int question_of(const struct message *m, size_t len, char ret[EGRESS_NAME_SIZE])
{
	uint8_t *exact = malloc(len ? len : 1);
	int r;

	assert_non_null(exact);
	memcpy(exact, m->bytes, len);
	r = dns_question(exact, len, ret);
	free(exact);
	return r;
}

static void learn(struct dns_known *known, const struct message *m, size_t len, int64_t now_ms)
{
	uint8_t *exact = malloc(len ? len : 1);

	assert_non_null(exact);
	memcpy(exact, m->bytes, len);
	dns_learn(known, exact, len, now_ms);
	free(exact);
}

static size_t names_of(const struct dns_known *known, const char *text, int64_t now_ms,
	const char *ret[DNS_NAMES_MAX])
{
	struct egress_addr a;

	assert_int_equal(egress_addr_parse(text, &a), 0);
	return dns_names(known, &a, now_ms, ret);
}

static void knows(const struct dns_known *known, const char *text, const char *name)
{
	const char *names[DNS_NAMES_MAX];

	assert_int_equal(names_of(known, text, NOW, names), 1);
	assert_string_equal(names[0], name);
}

static void knows_nothing(const struct dns_known *known, const char *text)
{
	const char *names[DNS_NAMES_MAX];

	assert_int_equal(names_of(known, text, NOW, names), 0);
}

/* ---- questions ---- */

static void test_questions(void **state)
{
	static const struct {
		const char *asked, *name;
	} cases[] = {
		{"example.com", "example.com"},
		{"ExAmPlE.CoM", "example.com"},
		{"a", "a"},
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"4.3.2.1.in-addr.arpa", "4.3.2.1.in-addr.arpa"},
		{"", ""},
		/* What would not be the name that it looks like stays escaped, and fits no rule. */
		{"a b.com", "a\\032b.com"},
		{"b\xFC.com", "b\\252.com"},
	};
	static struct message m;
	char name[EGRESS_NAME_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ask(&m, 0x0100, cases[i].asked, 0);
		assert_int_equal(question_of(&m, m.len, name), 0);
		assert_string_equal(name, cases[i].name);
		for (size_t len = 0; len < m.len; len++)
			assert_int_equal(question_of(&m, len, name), -EBADMSG);
	}
	/* A dot, and a NUL, within a label. */
	begin(&m, 0x0100, 1, 0);
	add(&m, "\x08good.com\4evil\0\0\1\0\1", 19);
	assert_int_equal(question_of(&m, m.len, name), 0);
	assert_string_equal(name, "good\\.com.evil");
	begin(&m, 0x0100, 1, 0);
	add(&m, "\x05good\0\4evil\0\0\1\0\1", 16);
	assert_int_equal(question_of(&m, m.len, name), 0);
	assert_string_equal(name, "good\\000.evil");
}

static void test_longest_name(void **state)
{
	char text[300] = "", name[EGRESS_NAME_SIZE];
	static struct message m;

	for (int i = 0; i < 126; i++)
		strcat(text, "a.");
	strcat(text, "b");
	ask(&m, 0x0100, text, 0);
	assert_int_equal(question_of(&m, m.len, name), 0);
	assert_string_equal(name, text);
	strcat(text, "b");
	ask(&m, 0x0100, text, 0);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	/* Within the limit of the wire, and not once its bytes are escaped. */
	text[0] = '\0';
	for (int i = 0; i < 100; i++)
		strcat(text, "\xFF.");
	strcat(text, "b");
	ask(&m, 0x0100, text, 0);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
}

static void test_no_questions(void **state)
{
	static struct message m;
	char name[EGRESS_NAME_SIZE];

	ask(&m, QR | 0x0100, "example.com", 0); /* an answer */
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	for (unsigned int opcode = 1; opcode < 16; opcode++) { /* an update, say */
		ask(&m, opcode << 11, "example.com", 0);
		assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	}
	begin(&m, 0x0100, 0, 0);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	begin(&m, 0x0100, 2, 0); /* one to be seen, and one to be answered */
	for (int i = 0; i < 2; i++) {
		add_name(&m, i == 0 ? "good.com" : "evil.com");
		add(&m, "\0\1\0\1", 4);
	}
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	ask(&m, 0x0100, "example.com", 0); /* bytes behind it */
	add(&m, "secret", 6);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	begin(&m, 0x0100, 1, 0); /* a pointer to itself */
	add(&m, "\xC0\x0C\0\1\0\1", 6);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	begin(&m, 0x0100, 1, 0); /* two that lead to each other */
	add(&m, "\1a\xC0\x10\1b\xC0\x0C\0\1\0\1", 12);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	begin(&m, 0x0100, 1, 0); /* a label of a type that there is not */
	add(&m, "\x7Fxyz\0\0\1\0\1", 9);
	assert_int_equal(question_of(&m, m.len, name), -EBADMSG);
	m.len = sizeof(m.bytes); /* too long for the protocol */
	ask(&m, 0x0100, "example.com", 0);
	assert_int_equal(question_of(&m, sizeof(m.bytes), name), -EBADMSG);
}

/* ---- answers ---- */

static void test_learn(void **state)
{
	static const uint8_t v6[16] = {0x20, 0x01, 0x0D, 0xB8, [15] = 1};
	struct dns_known known = {0};
	static struct message m;

	knows_nothing(&known, "192.0.2.1");
	ask(&m, QR, "Example.COM", 3);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	answer(&m, "example.com", TYPE_A, "\xC0\0\2\2", 4);
	answer(&m, NULL, TYPE_AAAA, v6, sizeof(v6));
	learn(&known, &m, m.len, NOW);
	knows(&known, "192.0.2.1", "example.com");
	knows(&known, "192.0.2.2", "example.com");
	knows(&known, "2001:db8::1", "example.com");
	knows_nothing(&known, "192.0.2.3");
	dns_known_done(&known);
	knows_nothing(&known, "192.0.2.1");
}

/* The addresses at the end of aliases are the name's that was asked for, and not the aliases'. */
static void test_aliases(void **state)
{
	struct dns_known known = {0};
	static struct message m;

	ask(&m, QR, "www.example.com", 3);
	answer(&m, NULL, TYPE_CNAME, "\3cdn\xC0\x10", 6);
	answer(&m, NULL, TYPE_TXT, "\4text", 5);
	answer(&m, "cdn.example.com", TYPE_A, "\xC0\0\2\1", 4);
	learn(&known, &m, m.len, NOW);
	knows(&known, "192.0.2.1", "www.example.com");
	dns_known_done(&known);
}

static void test_shared_address(void **state)
{
	struct dns_known known = {0};
	const char *names[DNS_NAMES_MAX];
	static struct message m;
	char text[32];

	for (int i = 0; i < 2 * DNS_NAMES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "n%d.example", i);
		for (int again = 0; again < 2; again++) {
			ask(&m, QR, text, 1);
			answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
			learn(&known, &m, m.len, NOW);
		}
		assert_int_equal(names_of(&known, "192.0.2.1", NOW, names),
			MIN(i + 1, DNS_NAMES_MAX));
	}
	assert_string_equal(names[0], "n0.example");
	dns_known_done(&known);
}

static void test_expiry(void **state)
{
	struct dns_known known = {0};
	const char *names[DNS_NAMES_MAX];
	static struct message m;

	ask(&m, QR, "example.com", 1);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	learn(&known, &m, m.len, NOW);
	assert_int_equal(names_of(&known, "192.0.2.1", NOW + DNS_KEPT_MS - 1, names), 1);
	assert_int_equal(names_of(&known, "192.0.2.1", NOW + DNS_KEPT_MS, names), 0);
	learn(&known, &m, m.len, NOW + DNS_KEPT_MS);
	assert_int_equal(names_of(&known, "192.0.2.1", NOW + DNS_KEPT_MS, names), 1);
	dns_known_done(&known);
}

/* Whoever asks for more names than are kept loses the oldest. */
static void test_eviction(void **state)
{
	struct dns_known known = {0};
	const char *names[DNS_NAMES_MAX];
	static struct message m;
	char text[32];

	for (int i = 0; i <= DNS_KNOWN_MAX; i++) {
		uint8_t address[] = {192, 0, (uint8_t)(i >> 8), (uint8_t)i};

		(void)snprintf(text, sizeof(text), "n%d.example", i);
		ask(&m, QR, text, 1);
		answer(&m, NULL, TYPE_A, address, 4);
		learn(&known, &m, m.len, NOW + i);
	}
	assert_int_equal(names_of(&known, "192.0.0.0", NOW + DNS_KNOWN_MAX, names), 0);
	for (int i = 1; i <= DNS_KNOWN_MAX; i++) {
		(void)snprintf(text, sizeof(text), "192.0.%d.%d", i >> 8, i & 255);
		assert_int_equal(names_of(&known, text, NOW + DNS_KNOWN_MAX, names), 1);
	}
	dns_known_done(&known);
}

/* At each cut either nothing is learned or what stands before it; and nothing is read behind it. */
static void test_cut(void **state)
{
	static struct message m;

	ask(&m, QR, "example.com", 2);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\2", 4);
	for (size_t len = 0; len < m.len; len++) {
		struct dns_known known = {0};

		learn(&known, &m, len, NOW);
		knows_nothing(&known, "192.0.2.1");
		knows_nothing(&known, "192.0.2.2");
		dns_known_done(&known);
	}
}

static void learns_nothing(const struct message *m)
{
	struct dns_known known = {0};

	learn(&known, m, m->len, NOW);
	knows_nothing(&known, "192.0.2.1");
	dns_known_done(&known);
}

static void test_no_answers(void **state)
{
	static struct message m;

	ask(&m, 0, "example.com", 1); /* a question with an answer in it */
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	learns_nothing(&m);
	ask(&m, QR | 5 << 11, "example.com", 1);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	learns_nothing(&m);
	begin(&m, QR, 0, 1); /* of no question */
	answer(&m, "example.com", TYPE_A, "\xC0\0\2\1", 4);
	learns_nothing(&m);
	ask(&m, QR, "example.com", 1); /* an address of three bytes */
	answer(&m, NULL, TYPE_A, "\xC0\0\2", 3);
	learns_nothing(&m);
	ask(&m, QR, "example.com", 1); /* of five */
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1\1", 5);
	learns_nothing(&m);
	ask(&m, QR, "example.com", 1); /* and of four for IPv6 */
	answer(&m, NULL, TYPE_AAAA, "\xC0\0\2\1", 4);
	learns_nothing(&m);
	ask(&m, QR, "example.com", 1); /* a name that leads to itself */
	add_u16(&m, 0xC000 | (unsigned int)m.len);
	add(&m, "\0\1\0\1\0\0\0\0\0\4\xC0\0\2\1", 14);
	learns_nothing(&m);
	begin(&m, QR, 1, 0); /* an additional record is nobody's answer */
	m.bytes[11] = 1;
	add_name(&m, "example.com");
	add(&m, "\0\1\0\1", 4);
	answer(&m, NULL, TYPE_A, "\xC0\0\2\1", 4);
	learns_nothing(&m);
}

/* Of an answer without end, the first records. */
static void test_many_records(void **state)
{
	struct dns_known known = {0};
	const char *names[DNS_NAMES_MAX];
	static struct message m;
	size_t n = 0;

	ask(&m, QR, "example.com", 1000);
	for (int i = 0; i < 1000; i++)
		answer(&m, NULL, TYPE_A, (uint8_t[]){10, 0, (uint8_t)(i >> 8), (uint8_t)i}, 4);
	learn(&known, &m, m.len, NOW);
	for (int i = 0; i < 1000; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "10.0.%d.%d", i >> 8, i & 255);
		n += names_of(&known, text, NOW, names);
	}
	assert_int_equal(n, 64);
	dns_known_done(&known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_longest_name),
		cmocka_unit_test(test_no_questions),
		cmocka_unit_test(test_learn),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_shared_address),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_no_answers),
		cmocka_unit_test(test_many_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
