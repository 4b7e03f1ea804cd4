/* SPDX-License-Identifier: Apache-2.0 */
/* The names in TLS and HTTP. */
#include "egress/peek.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

void peek_init(struct peek *p, const struct egress_policy *policy, uint16_t port,
	enum egress_names names)
{
	*p = (struct peek){.policy = policy, .port = port, .names = names};
	p->blank = p->first = p->in_head = true;
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

static bool must_show(const struct peek *p)
{
	return p->names != EGRESS_NAMES_FREE;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

/*
 * The host name that a text begins with, in lower case and without its final dot. Whether it is one, and perhaps a port, and no
 * more; what it looks like otherwise is for rules that deny.
 */
static bool take_name(const char *text, size_t len, char ret[EGRESS_NAME_SIZE])
{
	size_t n = 0, end;

	while (n < len && n < EGRESS_NAME_SIZE - 1 && is_name_char(text[n])) {
		ret[n] = (char)tolower((unsigned char)text[n]);
		n++;
	}
	end = n < len && text[n] == ':' ? n + 1 : n;
	while (end < len && end > n && isdigit((unsigned char)text[end]))
		end++;
	if (n > 0 && ret[n - 1] == '.')
		n--;
	ret[n] = '\0';
	return n > 0 && end == len;
}

static enum peek_verdict judge(const struct peek *p, const char *text, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	const char *at = memrchr(text, '@', len), *host = at ? at + 1 : text;
	char name[EGRESS_NAME_SIZE];
	bool whole = take_name(host, len - (size_t)(host - text), name) && !at;

	if (!whole && (must_show(p) || strlen(name) == sizeof(name) - 1))
		return refuse(why, "what it shows is no host name");
	return egress_policy_may_show(p->policy, name, p->port, p->names, why) ? PEEK_PASS
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

/* A view of bytes that is eaten from the front; `bad` once something did not fit. */
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

/* Of a handshake whose first bytes are there: how many it has, or 0 where that is not known yet. */
static size_t handshake_len(struct bytes b)
{
	(void)number(&b, 1);
	b.len = number(&b, 3);
	return b.bad ? 0 : HANDSHAKE_HEADER + b.len;
}

/* Puts the first handshake's bytes, as many as there are, into dst, which has room for them. False: this is not TLS. */
static bool gather(const struct peek *p, uint8_t *dst, size_t *ret_len)
{
	struct bytes b = {.at = p->held, .len = p->held_len};
	size_t have = 0, want = 0;

	while (b.len >= RECORD_HEADER && (want == 0 || have < want)) {
		size_t type = number(&b, 1), version = number(&b, 2), n = number(&b, 2);

		if (type != RECORD_HANDSHAKE || version >> 8 != 3 || n == 0)
			return false;
		n = MIN(n, b.len);
		memcpy(dst + have, b.at, n);
		have += n;
		(void)take(&b, n);
		want = handshake_len((struct bytes){.at = dst, .len = have});
	}
	*ret_len = have;
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
		return must_show(p) ? refuse(why, "its TLS ClientHello has no server name")
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

/* From `at`, how long it is until one of those characters. */
static size_t span_until(const char *s, size_t at, size_t len, const char *ends)
{
	size_t n = 0;

	while (at + n < len && (!s[at + n] || !strchr(ends, s[at + n])))
		n++;
	return n;
}

/* "Host: name", with a blank before the colon, which some servers forgive: where the name begins, or 0. */
static size_t host_value(const char *s, size_t len)
{
	size_t at = 4;

	if (len < 5 || strncasecmp(s, "host", 4) != 0)
		return 0;
	if (s[at] == ' ')
		at++;
	if (at == len || s[at] != ':')
		return 0;
	at++;
	return at < len && s[at] == ' ' ? at + 1 : at;
}

static bool is_method(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isupper((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
	}
	return len > 0;
}

/* "GET http://name/…": where the name begins, or 0. Of words that are no usual method, only where it says to be HTTP. */
static size_t absolute_target(const struct peek *p, size_t len)
{
	const char *s = p->line;
	size_t word = span_until(s, 0, len, " "), at = word + 1;

	while (at < len && (is_name_char(s[at]) || s[at] == '+'))
		at++;
	if (at == word + 1 || len < at + 3 || memcmp(s + at, "://", 3) != 0)
		return 0;
	return is_method(s, word) || p->cut || memmem(s, len, " HTTP/", 6) ? at + 3 : 0;
}

static bool is_request_line(const char *s, size_t len)
{
	size_t word = span_until(s, 0, len, " ");

	return word < len && is_method(s, word) && !(len >= 5 && memcmp(s, "PRI *", 5) == 0);
}

static enum peek_verdict look_at_line(struct peek *p, char why[EGRESS_WHY_SIZE])
{
	static const char h2c[] = "http2-settings:";
	const char *s = p->line;
	size_t len = p->line_len, at;

	if (len > 0 && s[len - 1] == ' ')
		len--;
	if (p->first && must_show(p) && p->port == 80 && !is_request_line(s, len))
		return refuse(why, "it is not HTTP/1");
	p->first = false;
	/* A Host without a name goes on in the next line, for a server that still knows folded fields. */
	if (p->host_folds && judge(p, s, len, why) == PEEK_REFUSE)
		return PEEK_REFUSE;
	p->host_folds = false;
	if (must_show(p) && len >= strlen(h2c) && strncasecmp(s, h2c, strlen(h2c)) == 0)
		return refuse(why, "it asks for HTTP/2 in the clear");
	at = absolute_target(p, len);
	if (at)
		return judge(p, s + at, span_until(s, at, len, "/?# "), why);
	at = host_value(s, len);
	if (!at)
		return PEEK_PASS;
	p->has_host = true;
	p->host_folds = at == len;
	return judge(p, s + at, len - at, why);
}

/* The end of a head, or before a request. */
static enum peek_verdict look_at_empty_line(struct peek *p, char why[EGRESS_WHY_SIZE])
{
	if (p->first)
		return PEEK_PASS;
	if (must_show(p) && p->port == 80 && p->in_head && !p->has_host)
		return refuse(why, "its HTTP request has no Host");
	p->in_head = false;
	return PEEK_PASS;
}

static void keep(struct peek *p, char c)
{
	bool blank = c == ' ' || c == '\t';
	bool after_blank = p->line_len == 0 || p->line[p->line_len - 1] == ' ';

	p->blank = false;
	if (blank && after_blank)
		return;
	if (!blank && p->line_len == PEEK_WORD_MAX && !memchr(p->line, ' ', PEEK_WORD_MAX))
		return; /* a long word */
	if (p->line_len == sizeof(p->line))
		p->cut = true;
	else
		p->line[p->line_len++] = blank ? ' ' : c;
}

static enum peek_verdict feed_lines(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	enum peek_verdict v = PEEK_PASS;

	for (size_t i = 0; i < len && v == PEEK_PASS; i++) {
		if (data[i] != '\n' && data[i] != '\r') {
			keep(p, (char)data[i]);
			continue;
		}
		if (p->line_len > 0)
			v = look_at_line(p, why);
		else if (data[i] == '\n' && p->blank)
			v = look_at_empty_line(p, why);
		p->line_len = 0;
		p->cut = false;
		p->blank = p->blank || data[i] == '\n';
	}
	return v;
}

enum peek_verdict peek_feed(struct peek *p, const uint8_t *data, size_t len,
	char why[EGRESS_WHY_SIZE])
{
	if (len == 0)
		return p->tls ? PEEK_HOLD : PEEK_PASS;
	if (!p->begun && data[0] == RECORD_HANDSHAKE)
		p->tls = true;
	p->begun = true;
	if (p->tls)
		return feed_tls(p, data, len, why);
	if (must_show(p) && p->port == 443)
		return refuse(why, "it is not TLS");
	return feed_lines(p, data, len, why);
}
