/* SPDX-License-Identifier: Apache-2.0 */
/* The names in TLS and HTTP. */
#include "egress/peek.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

void peek_init(struct peek *p, const struct egress_policy *policy, uint16_t port, bool by_name)
{
	*p = (struct peek){.policy = policy, .port = port, .by_name = by_name, .in_head = true};
}

void peek_done(struct peek *p)
{
	free(p->held);
	p->held = NULL;
	p->held_len = 0;
}

static enum peek_verdict refuse(char why[EGRESS_WHY_SIZE], const char *text)
{
	(void)snprintf(why, EGRESS_WHY_SIZE, "%s", text);
	return PEEK_REFUSE;
}

/* Host names only: with its port off, in lower case, without the final dot. False for anything else. */
static bool take_name(const char *text, size_t len, char ret[EGRESS_NAME_SIZE])
{
	const char *colon = memchr(text, ':', len);

	if (colon) {
		for (const char *c = colon + 1; c < text + len; c++) {
			if (!isdigit((unsigned char)*c))
				return false;
		}
		len = (size_t)(colon - text);
	}
	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len >= EGRESS_NAME_SIZE)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (!isalnum(c) && c != '-' && c != '.' && c != '_')
			return false;
		ret[i] = (char)tolower(c);
	}
	ret[len] = '\0';
	return true;
}

static enum peek_verdict judge(const struct peek *p, const char *text, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	char name[EGRESS_NAME_SIZE];

	if (!take_name(text, len, name))
		return p->by_name ? refuse(why, "what it shows is no host name") : PEEK_PASS;
	return egress_policy_may_show(p->policy, name, p->port, p->by_name, why) ? PEEK_PASS
										 : PEEK_REFUSE;
}

/* ---- TLS (RFC 8446, 4.1.2 and 5.1) ---- */

enum {
	RECORD_HEADER = 5,
	RECORD_HANDSHAKE = 22,
	HANDSHAKE_HEADER = 4,
	CLIENT_HELLO = 1,
	EXTENSION_SERVER_NAME = 0,
	NAME_TYPE_HOST = 0,
};

/* A view of bytes that is eaten from the front; `short_` once something did not fit. */
struct bytes {
	const uint8_t *at;
	size_t len;
	bool bad;
};

static struct bytes take(struct bytes *b, size_t n)
{
	struct bytes taken = {.at = b->at, .len = n};

	if (n > b->len) {
		b->bad = true;
		return (struct bytes){.bad = true};
	}
	b->at += n;
	b->len -= n;
	return taken;
}

static size_t number(struct bytes *b, size_t n)
{
	struct bytes digits = take(b, n);
	size_t v = 0;

	for (size_t i = 0; i < digits.len; i++)
		v = v << 8 | digits.at[i];
	return v;
}

/* A vector with its length in front. */
static struct bytes vector(struct bytes *b, size_t length_bytes)
{
	size_t n = number(b, length_bytes);

	return take(b, n);
}

/* The first host name of a server_name extension; of several, which clients never send, none counts. */
static struct bytes server_name(struct bytes extension)
{
	struct bytes list = vector(&extension, 2);
	size_t type = number(&list, 1);
	struct bytes name = vector(&list, 2);

	if (list.bad || list.len || extension.len || type != NAME_TYPE_HOST)
		return (struct bytes){.bad = true};
	return name;
}

/* The name in a ClientHello, which is whole. `at` is NULL where there is none. */
static struct bytes hello_name(struct bytes hello)
{
	struct bytes extensions, found = {0};

	(void)take(&hello, 2 + 32); /* version, random */
	(void)vector(&hello, 1);    /* session */
	(void)vector(&hello, 2);    /* ciphers */
	(void)vector(&hello, 1);    /* compression */
	if (hello.bad || hello.len == 0)
		return (struct bytes){.bad = hello.bad};
	extensions = vector(&hello, 2);
	if (hello.bad || hello.len)
		return (struct bytes){.bad = true};
	while (extensions.len) {
		size_t type = number(&extensions, 2);
		struct bytes body = vector(&extensions, 2);

		if (extensions.bad)
			return (struct bytes){.bad = true};
		if (type != EXTENSION_SERVER_NAME)
			continue;
		if (found.at)
			return (struct bytes){.bad = true};
		found = server_name(body);
		if (found.bad)
			return found;
	}
	return found;
}

/* Puts the handshake's bytes of all records that are there into dst, which has room for them. False: this is not TLS. */
static bool gather(const struct peek *p, uint8_t *dst, size_t *ret_len)
{
	struct bytes b = {.at = p->held, .len = p->held_len};

	*ret_len = 0;
	while (b.len >= RECORD_HEADER) {
		size_t type = number(&b, 1), version = number(&b, 2), n = number(&b, 2);

		if (type != RECORD_HANDSHAKE || version >> 8 != 3 || n == 0)
			return false;
		n = MIN(n, b.len);
		memcpy(dst + *ret_len, b.at, n);
		*ret_len += n;
		(void)take(&b, n);
	}
	return true;
}

static enum peek_verdict look_at_hello(const struct peek *p, char why[EGRESS_WHY_SIZE])
{
	_cleanup_free_ uint8_t *handshake = xcalloc(1, PEEK_HELLO_MAX);
	struct bytes b = {.at = handshake}, hello, name;
	enum peek_verdict v;

	if (!gather(p, handshake, &b.len) || (b.len && b.at[0] != CLIENT_HELLO))
		return refuse(why, "it begins like TLS, and is not");
	if (b.len < HANDSHAKE_HEADER)
		return PEEK_HOLD;
	(void)number(&b, 1);
	hello = vector(&b, 3);
	if (hello.bad)
		return PEEK_HOLD;
	name = hello_name(hello);
	if (name.bad)
		return refuse(why, "its TLS ClientHello is damaged");
	if (!name.at)
		return p->by_name ? refuse(why, "its TLS ClientHello has no server name")
				  : PEEK_DONE;
	v = judge(p, (const char *)name.at, name.len, why);
	return v == PEEK_PASS ? PEEK_DONE : v;
}

static enum peek_verdict feed_tls(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	if (len > PEEK_HELLO_MAX - p->held_len)
		return refuse(why, "its TLS ClientHello is too long");
	if (!p->held)
		p->held = xcalloc(1, PEEK_HELLO_MAX);
	memcpy(p->held + p->held_len, data, len);
	p->held_len += len;
	return look_at_hello(p, why);
}

/* ---- lines ---- */

static size_t skip_blanks(const char *s, size_t at, size_t len)
{
	while (at < len && (s[at] == ' ' || s[at] == '\t'))
		at++;
	return at;
}

/* "Host: name", and with blanks before the colon, which some servers forgive. Returns where the value begins, or 0. */
static size_t host_value(const char *s, size_t len)
{
	size_t at = 4;

	if (len < 5 || strncasecmp(s, "host", 4) != 0)
		return 0;
	at = skip_blanks(s, at, len);
	return at < len && s[at] == ':' ? skip_blanks(s, at + 1, len) : 0;
}

/* "GET http://name/…": where the name begins, or 0. */
static size_t absolute_target(const char *s, size_t len)
{
	static const char *const schemes[] = {"http://", "https://", "ws://", "wss://"};
	size_t at = 0;

	while (at < len && isupper((unsigned char)s[at]))
		at++;
	if (at == 0 || at == len || s[at] != ' ')
		return 0;
	at = skip_blanks(s, at, len);
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (len - at >= n && strncasecmp(s + at, schemes[i], n) == 0)
			return at + n;
	}
	return 0;
}

static bool is_request_line(const char *s, size_t len)
{
	size_t at = 0;

	while (at < len && isupper((unsigned char)s[at]))
		at++;
	return at > 0 && at < len && s[at] == ' ' && !(len >= 5 && memcmp(s, "PRI *", 5) == 0);
}

/* One line without its end. */
static enum peek_verdict look_at_line(struct peek *p, char why[EGRESS_WHY_SIZE])
{
	bool http = p->by_name && p->port == 80;
	const char *s = p->line;
	size_t len = MIN(p->line_len, sizeof(p->line)), at;

	if (len > 0 && s[len - 1] == '\r')
		len--;
	if (len == 0) {
		if (http && p->started && p->in_head && !p->has_host)
			return refuse(why, "its HTTP request has no Host");
		p->in_head = p->in_head && !p->started; /* empty lines may come before a request */
		return PEEK_PASS;
	}
	if (http && !p->started && !is_request_line(s, len))
		return refuse(why, "it is not HTTP/1");
	p->started = true;
	if (p->by_name && len >= 15 && strncasecmp(s, "http2-settings:", 15) == 0)
		return refuse(why, "it asks for HTTP/2 in the clear");
	at = absolute_target(s, len);
	if (at)
		return judge(p, s + at, strcspn(s + at, "/? "), why);
	at = host_value(s, len);
	if (!at)
		return PEEK_PASS;
	p->has_host = true;
	while (len > at && (s[len - 1] == ' ' || s[len - 1] == '\t'))
		len--;
	return judge(p, s + at, len - at, why);
}

static enum peek_verdict feed_lines(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] != '\n') {
			/* One byte is left for the NUL of strcspn(). */
			if (p->line_len < sizeof(p->line) - 1)
				p->line[p->line_len] = (char)data[i];
			p->line_len++;
			continue;
		}
		p->line[MIN(p->line_len, sizeof(p->line) - 1)] = '\0';
		p->line_len = MIN(p->line_len, sizeof(p->line) - 1);
		if (look_at_line(p, why) == PEEK_REFUSE)
			return PEEK_REFUSE;
		p->line_len = 0;
	}
	return PEEK_PASS;
}

enum peek_verdict peek_feed(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	if (len == 0)
		return p->tls ? PEEK_HOLD : PEEK_PASS;
	if (!p->started && p->line_len == 0 && !p->tls && data[0] == RECORD_HANDSHAKE)
		p->tls = true;
	if (p->tls)
		return feed_tls(p, data, len, why);
	if (p->by_name && p->port == 443)
		return refuse(why, "it is not TLS");
	return feed_lines(p, data, len, why);
}
