/* SPDX-License-Identifier: Apache-2.0 */
/* The names in streams: whatever way the bytes are cut and written, the name that the server will see is the one that is judged. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "client_hello.h"
#include "egress/peek.h"

enum { ROOM = 40000 };

/* Allows good.example, its subdomains and www.example.com; denies evil.example and its subdomains. */
static int make_policy(void **state)
{
	static struct egress_policy p;

	assert_int_equal(egress_rules_add(&p.allow, "good.example", NULL), 0);
	assert_int_equal(egress_rules_add(&p.allow, "*.good.example", NULL), 0);
	assert_int_equal(egress_rules_add(&p.allow, "www.example.com", NULL), 0);
	assert_int_equal(egress_rules_add(&p.deny, "evil.example", NULL), 0);
	assert_int_equal(egress_rules_add(&p.deny, "*.evil.example", NULL), 0);
	*state = &p;
	return 0;
}

static int free_policy(void **state)
{
	egress_policy_done(*state);
	return 0;
}

/*
 * The last verdict on a stream that comes in pieces of `piece` bytes; *ret_passed: how much of it has gone on by then, held bytes
 * included.
 */
static enum peek_verdict feed(const struct egress_policy *policy, uint16_t port,
	enum egress_names names, const void *data, size_t len, size_t piece, size_t *ret_passed,
	char why[EGRESS_WHY_SIZE])
{
	enum peek_verdict v = PEEK_PASS;
	struct peek p;
	size_t at = 0;

	*ret_passed = 0;
	memset(&p, 0x55, sizeof(p));
	peek_init(&p, policy, port, names);
	while (at < len && (v == PEEK_PASS || v == PEEK_HOLD)) {
		size_t n = MIN(piece, len - at);
		uint8_t *exact = malloc(n); /* so that reading too far is seen */

		assert_non_null(exact);
		memcpy(exact, (const uint8_t *)data + at, n);
		v = peek_feed(&p, exact, n, why);
		free(exact);
		at += n;
		if (v == PEEK_PASS || v == PEEK_DONE)
			*ret_passed = at;
		if (p.tls && v != PEEK_REFUSE)
			assert_memory_equal(p.held, data, at);
	}
	peek_done(&p);
	assert_null(p.held);
	return v;
}

/* The same verdict in one piece, byte by byte, and in all sizes between. */
static enum peek_verdict verdict(const struct egress_policy *policy, uint16_t port,
	enum egress_names names, const void *data, size_t len, char why[EGRESS_WHY_SIZE])
{
	static const size_t pieces[] = {1, 2, 3, 7, 64, 1000};
	size_t passed;
	enum peek_verdict v = feed(policy, port, names, data, len, len, &passed, why);

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		enum peek_verdict again =
			feed(policy, port, names, data, len, pieces[i], &passed, why);

		if (again != v)
			fail_msg("in pieces of %zu it is %d, in one %d", pieces[i], (int)again,
				(int)v);
	}
	return v;
}

/* ---- TLS ---- */

static void put_u16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

struct bytes {
	uint8_t at[ROOM];
	size_t len;
};

static void add(struct bytes *b, const void *data, size_t len)
{
	assert_true(b->len + len <= sizeof(b->at));
	memcpy(b->at + b->len, data, len);
	b->len += len;
}

static void add_number(struct bytes *b, size_t v, size_t n)
{
	while (n-- > 0)
		add(b, &(uint8_t){(uint8_t)(v >> 8 * n)}, 1);
}

/* One server_name extension with one name. */
static void add_sni(struct bytes *b, const char *name, size_t len)
{
	add_number(b, 0, 2);
	add_number(b, len + 5, 2);
	add_number(b, len + 3, 2);
	add_number(b, 0, 1);
	add_number(b, len, 2);
	add(b, name, len);
}

/* A handshake message around extensions. */
static struct bytes *hello(const struct bytes *extensions)
{
	static struct bytes b;
	size_t len = 2 + 32 + 1 + 4 + 2 + 2 + extensions->len;

	b.len = 0;
	add_number(&b, 1, 1);
	add_number(&b, len, 3);
	add_number(&b, 0x0303, 2);
	add(&b, "01234567890123456789012345678901", 32);
	add_number(&b, 0, 1);
	add_number(&b, 2, 2);
	add_number(&b, 0x1301, 2);
	add_number(&b, 0x0100, 2);
	add_number(&b, extensions->len, 2);
	add(&b, extensions->at, extensions->len);
	return &b;
}

/* The bytes of a handshake in records of at most `size`. */
static struct bytes *records(const uint8_t *handshake, size_t len, size_t size)
{
	static struct bytes b;

	b.len = 0;
	for (size_t at = 0; at < len; at += size) {
		size_t n = MIN(size, len - at);

		add_number(&b, 0x160301, 3);
		add_number(&b, n, 2);
		add(&b, handshake + at, n);
	}
	return &b;
}

static struct bytes *named(const char *name)
{
	static struct bytes extensions;
	struct bytes *h;

	extensions.len = 0;
	add_sni(&extensions, name, strlen(name));
	h = hello(&extensions);
	return records(h->at, h->len, h->len);
}

static enum peek_verdict tls(void **state, enum egress_names names, const struct bytes *b,
	char why[EGRESS_WHY_SIZE])
{
	return verdict(*state, 443, names, b->at, b->len, why);
}

static void test_real_hellos(void **state)
{
	char why[EGRESS_WHY_SIZE];
	size_t passed;

	/* Held until it is whole, then all at once, at every cut. */
	for (size_t cut = 1; cut <= sizeof(hello_named); cut++) {
		assert_int_equal(feed(*state, 443, EGRESS_NAMES_ALLOWED, hello_named, cut, cut,
					 &passed, why),
			cut < sizeof(hello_named) ? PEEK_HOLD : PEEK_DONE);
		assert_int_equal(passed, cut < sizeof(hello_named) ? 0 : cut);
		assert_int_equal(feed(*state, 443, EGRESS_NAMES_ALLOWED, hello_named,
					 sizeof(hello_named), cut, &passed, why),
			PEEK_DONE);
		assert_int_equal(passed, sizeof(hello_named));
	}
	assert_int_equal(verdict(*state, 8443, EGRESS_NAMES_ALLOWED, hello_named,
				 sizeof(hello_named), why),
		PEEK_DONE);
	assert_int_equal(verdict(*state, 443, EGRESS_NAMES_FREE, hello_nameless,
				 sizeof(hello_nameless), why),
		PEEK_DONE);
	assert_int_equal(verdict(*state, 443, EGRESS_NAMES_ALLOWED, hello_nameless,
				 sizeof(hello_nameless), why),
		PEEK_REFUSE);
	assert_string_equal(why, "its TLS ClientHello has no server name");
}

/* In records of one byte each, the worst that may be. */
static void test_tiny_records(void **state)
{
	char why[EGRESS_WHY_SIZE];

	for (size_t size = 1; size < 600; size += size < 8 ? 1 : 97) {
		struct bytes *b = records(hello_named + 5, sizeof(hello_named) - 5, size);

		assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, b, why), PEEK_DONE);
	}
}

static void test_server_names(void **state)
{
	static const struct {
		const char *name;
		enum peek_verdict allowed, open; /* where it must show a name, and where not */
		const char *why;
	} cases[] = {
		{"good.example", PEEK_DONE, PEEK_DONE},
		{"GOOD.example", PEEK_DONE, PEEK_DONE},
		{"good.example.", PEEK_DONE, PEEK_DONE},
		{"a.b.good.example", PEEK_DONE, PEEK_DONE},
		{"other.example", PEEK_REFUSE, PEEK_DONE,
			"the sandbox's policy allows this address only for other names"},
		{"xgood.example", PEEK_REFUSE, PEEK_DONE,
			"the sandbox's policy allows this address only for other names"},
		{"good.example.evil.com", PEEK_REFUSE, PEEK_DONE,
			"the sandbox's policy allows this address only for other names"},
		{"evil.example", PEEK_REFUSE, PEEK_REFUSE,
			"the sandbox's policy denies \"evil.example\""},
		{"a.EVIL.example.", PEEK_REFUSE, PEEK_REFUSE,
			"the sandbox's policy denies \"*.evil.example\""},
		{"", PEEK_REFUSE, PEEK_DONE, "what it shows is no host name"},
		{".", PEEK_REFUSE, PEEK_DONE, "what it shows is no host name"},
		{"good.example/", PEEK_REFUSE, PEEK_DONE, "what it shows is no host name"},
		{"evil.example@good.example", PEEK_REFUSE, PEEK_DONE,
			"what it shows is no host name"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char why[EGRESS_WHY_SIZE] = "";

		assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, named(cases[i].name), why),
			cases[i].allowed);
		if (cases[i].allowed == PEEK_REFUSE)
			assert_string_equal(why, cases[i].why);
		assert_int_equal(tls(state, EGRESS_NAMES_FREE, named(cases[i].name), why),
			cases[i].open);
	}
}

/* A NUL, as in "good.example\0.evil.example". */
static void test_nul_in_name(void **state)
{
	static struct bytes e;
	struct bytes *h;
	char why[EGRESS_WHY_SIZE];

	add_sni(&e, "good.example\0.evil.com", 22);
	h = hello(&e);
	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, records(h->at, h->len, h->len), why),
		PEEK_REFUSE);
	assert_string_equal(why, "what it shows is no host name");
}

static void refused_hello(void **state, const struct bytes *extensions, const char *want)
{
	char why[EGRESS_WHY_SIZE];
	struct bytes *h = hello(extensions);

	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, records(h->at, h->len, h->len), why),
		PEEK_REFUSE);
	assert_string_equal(why, want);
}

static void test_damaged_hellos(void **state)
{
	static const char damaged[] = "its TLS ClientHello is damaged";
	static struct bytes e;

	/* Two names, in two extensions or one: which of them counts is the server's. */
	add_sni(&e, "good.example", 12);
	add_sni(&e, "evil.com", 8);
	refused_hello(state, &e, damaged);
	e.len = 0;
	add_number(&e, 0, 2);
	add_number(&e, 2 + 15 + 11, 2);
	add_number(&e, 15 + 11, 2);
	add(&e,
		"\0\0\x0Cgood.example\0\0\x08"
		"evil.com",
		15 + 11);
	refused_hello(state, &e, damaged);
	/* Another kind of name. */
	e.len = 0;
	add_sni(&e, "good.example", 12);
	e.at[6] = 1;
	refused_hello(state, &e, damaged);
	/* Lengths that do not fit into each other. */
	for (size_t at = 3; at <= 8; at += 5) {
		for (int step = -1; step <= 1; step += 2) {
			e.len = 0;
			add_sni(&e, "good.example", 12);
			e.at[at] = (uint8_t)(e.at[at] + step);
			refused_hello(state, &e, damaged);
		}
	}
	/* Half an extension. */
	e.len = 0;
	add_sni(&e, "good.example", 12);
	add(&e, "\0\x17\0", 3);
	refused_hello(state, &e, damaged);
	/* No extensions are no damage. */
	e.len = 0;
	refused_hello(state, &e, "its TLS ClientHello has no server name");
}

/* Whatever bit of a real one is another: nothing crashes, and it passes only as what it says. */
static void test_wrong_lengths(void **state)
{
	static uint8_t copy[sizeof(hello_named)];
	char why[EGRESS_WHY_SIZE];
	size_t passed;

	for (size_t at = 5; at < 180; at++) {
		for (int bit = 0; bit < 8; bit++) {
			memcpy(copy, hello_named, sizeof(copy));
			copy[at] ^= (uint8_t)(1 << bit);
			(void)feed(*state, 443, EGRESS_NAMES_ALLOWED, copy, sizeof(copy),
				sizeof(copy), &passed, why);
			for (size_t i = 0; i < sizeof(copy); i++)
				copy[i] = (uint8_t)tolower(copy[i]);
			if (passed > 0 && !memmem(copy, sizeof(copy), "www.example.com", 15))
				fail_msg("byte %zu, bit %d: another name passed", at, bit);
		}
	}
}

static void test_no_tls(void **state)
{
	char why[EGRESS_WHY_SIZE];
	struct bytes *b;

	/* It begins with the byte of TLS, and goes on otherwise. */
	assert_int_equal(verdict(*state, 443, EGRESS_NAMES_ALLOWED, "\x16GET / HTTP/1.1\r\n", 17,
				 why),
		PEEK_REFUSE);
	assert_string_equal(why, "it begins like TLS, and is not");
	b = named("good.example");
	b->at[5] = 2; /* a ServerHello */
	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, b, why), PEEK_REFUSE);
	assert_string_equal(why, "it begins like TLS, and is not");
	b = named("good.example");
	put_u16(b->at + 3, 0); /* an empty record */
	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, b, why), PEEK_REFUSE);
	/* A record of another type within the ClientHello. */
	b = records(hello_named + 5, sizeof(hello_named) - 5, 100);
	b->at[105] = 23;
	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, b, why), PEEK_REFUSE);
	/* Where a name must be shown on port 443, only TLS does. */
	assert_int_equal(verdict(*state, 443, EGRESS_NAMES_ALLOWED,
				 "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", 38, why),
		PEEK_REFUSE);
	assert_string_equal(why, "it is not TLS");
	assert_int_equal(verdict(*state, 443, EGRESS_NAMES_ALLOWED, "\x80\x2E\x01\x03\x01", 5, why),
		PEEK_REFUSE);
	/* TLS begins a stream, or is none: what is sent before it would have it looked at no more. */
	b = named("good.example");
	memmove(b->at + 2, b->at, b->len);
	memcpy(b->at, "\r\n", 2);
	b->len += 2;
	assert_int_equal(verdict(*state, 8080, EGRESS_NAMES_FREE, b->at, b->len, why), PEEK_PASS);
}

/* What follows the ClientHello goes with it, whatever it is: early data, or a change of ciphers. */
static void test_early_data(void **state)
{
	static struct bytes b;
	char why[EGRESS_WHY_SIZE];

	add(&b, hello_named, sizeof(hello_named));
	add(&b, "\x14\3\3\0\1\1", 6);
	add(&b, "\x17\3\3\0\4data", 9);
	assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, &b, why), PEEK_DONE);
}

static void test_longest_hello(void **state)
{
	static struct bytes e;
	char why[EGRESS_WHY_SIZE];
	struct bytes *h, *r;

	/* Padding (RFC 7685) up to what is held back. */
	for (int over = 0; over < 2; over++) {
		size_t pad = PEEK_HELLO_MAX - 2 * 5 - 47 - 21 - 4 + (size_t)over;

		e.len = 0;
		add_sni(&e, "good.example", 12);
		add_number(&e, 21, 2);
		add_number(&e, pad, 2);
		memset(e.at + e.len, 0, pad);
		e.len += pad;
		h = hello(&e);
		r = records(h->at, h->len, 1 << 14);
		assert_int_equal(r->len, PEEK_HELLO_MAX + over);
		assert_int_equal(tls(state, EGRESS_NAMES_ALLOWED, r, why),
			over ? PEEK_REFUSE : PEEK_DONE);
	}
	assert_string_equal(why, "its TLS ClientHello is too long");
}

/* ---- HTTP ---- */

static void http(void **state, const char *text, enum egress_names names, const char *want)
{
	char why[EGRESS_WHY_SIZE] = "";
	enum peek_verdict v = verdict(*state, 80, names, text, strlen(text), why);

	if (v != (want ? PEEK_REFUSE : PEEK_PASS))
		fail_msg("%s: %s", text, v == PEEK_REFUSE ? why : "it passes");
	if (want && strcmp(why, want) != 0)
		fail_msg("%s: %s", text, why);
}

static const char other_names[] = "the sandbox's policy allows this address only for other names";
static const char no_name[] = "what it shows is no host name";
static const char no_http[] = "it is not HTTP/1";
static const char no_host[] = "its HTTP request has no Host";
static const char denied[] = "the sandbox's policy denies \"evil.example\"";

/* A request to an address that is allowed for good.example only. */
static void test_http_names(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", NULL},
		{"GET / HTTP/1.1\nhost:GOOD.example:80\n\n", NULL},
		{"GET / HTTP/1.1\r\nAccept: */*\r\nHost:\t a.good.example. \t\r\n\r\n", NULL},
		{"\r\n\r\nGET / HTTP/1.1\r\nHost: good.example\r\n\r\n", NULL},
		{"\n\nPOST /x HTTP/1.1\r\nHost: good.example\r\n\r\nbody\r\n\r\n", NULL},
		{"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", NULL},
		{"OPTIONS * HTTP/1.1\r\nHost: good.example\r\n\r\n", NULL},
		/* Another name, in every place that counts for some server. */
		{"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", other_names},
		{"GET / HTTP/1.1\r\nHost : other.example\r\n\r\n", other_names},
		{"GET / HTTP/1.1\r\nHost \t : other.example\r\n\r\n", other_names},
		{"GET / HTTP/1.1\r\n Host: other.example\r\nHost: good.example\r\n\r\n",
			other_names},
		{"GET / HTTP/1.1\r\nHost: good.example\r\nHost: other.example\r\n\r\n",
			other_names},
		{"GET / HTTP/1.1\r\nHost: other.example\r\nHost: good.example\r\n\r\n",
			other_names},
		{"GET / HTTP/1.1\rHost: other.example\r\nHost: good.example\r\n\r\n", other_names},
		{"GET / HTTP/1.1\r\nA: b\rHost: other.example\r\nHost: good.example\r\n\r\n",
			other_names},
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\nGET / HTTP/1.1\r\nHost: other.example\r\n",
			other_names},
		{"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 2\r\n\r\nabHost: a\r\n"
		 "Host: other.example\r\n",
			other_names},
		{"GET http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", other_names},
		{"GET  \t http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
			other_names},
		{"GET HTTPS://other.example HTTP/1.1\r\nHost: good.example\r\n\r\n", other_names},
		{"GET x+y.z-1://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
			other_names},
		{"GET http://other.example?good.example HTTP/1.1\r\n", other_names},
		{"GET http://other.example#good.example HTTP/1.1\r\n", other_names},
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\nGET http://other.example/ HTTP/1.1\r\n",
			other_names},
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\nget http://other.example/ HTTP/1.1\r\n",
			other_names},
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\nX_Y-Z http://other.example/\r\n",
			other_names},
		/* Names that some would read otherwise. */
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost:\r\n good.example\r\n\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: good.example other.example\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: good.example,other.example\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: good.example:80:80\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: good.example:8O\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: good.example/\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: [::1]\r\n", no_name},
		{"GET / HTTP/1.1\r\nHost: user@good.example\r\n", no_name},
		{"GET http://good.example@other.example/ HTTP/1.1\r\n", no_name},
		{"GET http://good.example:80@other.example/ HTTP/1.1\r\n", no_name},
		{"GET http://other.example\\@good.example/ HTTP/1.1\r\n", no_name},
		{"GET http:///x HTTP/1.1\r\nHost: good.example\r\n", no_name},
		/* No Host. */
		{"GET / HTTP/1.0\r\n\r\n", no_host},
		{"GET / HTTP/1.1\r\nHostess: good.example\r\n\r\n", no_host},
		{"GET / HTTP/1.1\n\n", no_host},
		/* Not HTTP/1. */
		{"get / HTTP/1.1\r\nHost: good.example\r\n\r\n", no_http},
		{"SSH-2.0-OpenSSH_9.2\r\n", no_http},
		{"GET\r\n", no_http},
		{"Host: good.example\r\n\r\n", no_http},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", no_http},
		{"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", no_http},
		{"GET / HTTP/1.1\r\nHost: good.example\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
			"it asks for HTTP/2 in the clear"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		http(state, cases[i].text, EGRESS_NAMES_ALLOWED, cases[i].want);
		if (cases[i].want == other_names)
			http(state, cases[i].text, EGRESS_NAMES_FREE, NULL);
	}
}

/* An address that is open, but for evil.example. */
static void test_http_denied(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"GET / HTTP/1.1\r\nHost: any.example\r\n\r\n", NULL},
		{"GET / HTTP/1.0\r\n\r\n", NULL},
		{"GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", NULL},
		{"GET / HTTP/1.1\r\nHost: any thing\r\n\r\n", NULL},
		{"SSH-2.0-OpenSSH_9.2\r\n", NULL},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", NULL},
		{"host:\r\n  name: db\r\n", NULL},
		{"see http://evil.example/ for more\r\n", NULL},
		{"GET / HTTP/1.1\r\nHost: EVIL.example\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost: evil.example.:80\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost: evil.example:x\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost: evil.example x\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost: me@evil.example\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost: me:80@evil.example\r\n\r\n", denied},
		{"GET / HTTP/1.1\r\nHost:\r\n evil.example\r\n\r\n", denied},
		{"GET http://me:pw@evil.example/ HTTP/1.1\r\n", denied},
		{"lower http://evil.example/ HTTP/1.1\r\n", denied},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		http(state, cases[i].text, EGRESS_NAMES_FREE, cases[i].want);
}

static char *repeat(char *dst, char c, size_t n)
{
	memset(dst, c, n);
	dst[n] = '\0';
	return dst + n;
}

/* What does not fit is no way past: blanks, words and names of any length. */
static void test_http_long_lines(void **state)
{
	static char text[ROOM];
	char *p;

	/* Blanks. */
	p = stpcpy(text, "GET");
	p = repeat(p, ' ', 5000);
	(void)strcpy(p, "http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, other_names);
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost");
	p = repeat(p, '\t', 5000);
	p = stpcpy(p, ":");
	p = repeat(p, ' ', 5000);
	(void)strcpy(p, "other.example\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, other_names);
	/* A method. */
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n");
	p = repeat(p, 'A', 5000);
	(void)strcpy(p, " http://other.example/ HTTP/1.1\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, other_names);
	/* A target, behind which there may be HTTP/1.1 or not. */
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\nx http://other.example/");
	p = repeat(p, 'a', 5000);
	(void)strcpy(p, " HTTP/1.1\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, other_names);
	/* Names. */
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost: ");
	p = repeat(p, 'a', 300);
	(void)strcpy(p, ".good.example\r\n\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, no_name);
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost: ");
	p = repeat(p, 'a', 300);
	(void)strcpy(p, ".evil.example\r\n\r\n");
	http(state, text, EGRESS_NAMES_FREE, no_name);
	p = stpcpy(text, "GET / HTTP/1.1\r\nHost: ");
	p = repeat(p, 'a', 5000);
	(void)strcpy(p, ".evil.example\r\n\r\n");
	http(state, text, EGRESS_NAMES_FREE, no_name);
	/* And what is only long passes. */
	p = stpcpy(text, "POST /");
	p = repeat(p, 'a', 5000);
	p = stpcpy(p, " HTTP/1.1\r\nHost: good.example\r\nCookie: ");
	p = repeat(p, 'c', 5000);
	p = stpcpy(p, "\r\n\r\n");
	p = repeat(p, 'b', 20000);
	(void)strcpy(p, "\r\n");
	http(state, text, EGRESS_NAMES_ALLOWED, NULL);
}

/* The end of a line that says a forbidden name has not gone on. */
static void test_http_stops_in_time(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n";
	char why[EGRESS_WHY_SIZE];
	size_t passed;

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		assert_int_equal(feed(*state, 80, EGRESS_NAMES_ALLOWED, text, sizeof(text) - 1,
					 piece, &passed, why),
			PEEK_REFUSE);
		assert_true(passed <= strlen("GET / HTTP/1.1\r\nHost: other.example"));
	}
}

/* On a port of no known protocol a name is judged where one is shown, and none need be. */
static void test_other_ports(void **state)
{
	static const struct {
		const char *text;
		enum peek_verdict want;
	} cases[] = {
		{"SSH-2.0-OpenSSH_9.2\r\n\r\n", PEEK_PASS},
		{"\0\0\0\x08\x04\xD2\x16\x2F", PEEK_PASS},
		{"GET / HTTP/1.0\r\n\r\n", PEEK_PASS},
		{"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", PEEK_REFUSE},
		{"GET http://other.example/ HTTP/1.1\r\n\r\n", PEEK_REFUSE},
	};
	char why[EGRESS_WHY_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(verdict(*state, 8080, EGRESS_NAMES_ALLOWED, cases[i].text,
					 i == 1 ? 8 : strlen(cases[i].text), why),
			cases[i].want);
}

static void test_nothing(void **state)
{
	char why[EGRESS_WHY_SIZE];
	struct peek p;

	peek_init(&p, *state, 80, EGRESS_NAMES_ALLOWED);
	assert_int_equal(peek_feed(&p, NULL, 0, why), PEEK_PASS);
	assert_int_equal(peek_feed(&p, (const uint8_t *)"\x16", 1, why), PEEK_HOLD);
	assert_int_equal(peek_feed(&p, NULL, 0, why), PEEK_HOLD);
	peek_done(&p);
	peek_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_hellos),
		cmocka_unit_test(test_tiny_records),
		cmocka_unit_test(test_server_names),
		cmocka_unit_test(test_nul_in_name),
		cmocka_unit_test(test_damaged_hellos),
		cmocka_unit_test(test_wrong_lengths),
		cmocka_unit_test(test_no_tls),
		cmocka_unit_test(test_early_data),
		cmocka_unit_test(test_longest_hello),
		cmocka_unit_test(test_http_names),
		cmocka_unit_test(test_http_denied),
		cmocka_unit_test(test_http_long_lines),
		cmocka_unit_test(test_http_stops_in_time),
		cmocka_unit_test(test_other_ports),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, make_policy, free_policy);
}
