/* SPDX-License-Identifier: Apache-2.0 */
/* What of a request goes to a server in a sandbox, and what of its answer comes back. */
/*
 * Theory of operation
 * -------------------
 * A server in a sandbox is made to believe that it is asked on its own machine: the Host is localhost with its port, and an
 * Origin that is the client's own view of this server becomes that, too, so that checks of "the same origin" come out as
 * they would without us; a foreign Origin stays what it is. How the client sees it is in X-Forwarded-Host, -Proto and
 * -Prefix. Redirects to itself are turned back.
 *
 * Our credentials stay here: an Authorization that is a key, our cookie, and all of Referer, for the address that it
 * quotes holds the token.
 *
 * Where the client reaches the server below a path of the API's own origin (`prefix`), a browser would take what the
 * server says for the API's word. So its documents are put into an origin of their own (Content-Security-Policy: sandbox),
 * which may read the server's answers (Access-Control-Allow-Origin: whoever knows the address could anyway) and nothing
 * else; its cookies are confined to the prefix; and headers that speak for a whole origin are dropped.
 */
#include "http/forward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/headers.h"

/* They are about one connection (RFC 9110, section 7.6.1), or about a body on it. */
static const char *const of_connection[] = {"Connection", "Content-Length", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer",
	"Transfer-Encoding", "Upgrade"};

static const char *const of_request[] = {"Expect", "Host", "Referer", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto"};

/* They speak for all that a browser has of an origin, or have it tell others what it does there. */
static const char *const of_origin[] = {"Alt-Svc", "Clear-Site-Data", "NEL", "Report-To",
	"Service-Worker-Allowed", "Strict-Transport-Security"};

static const char sandbox[] =
	"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, ARRAY_SIZE(names))

static bool stays_behind(const struct buf *headers, const char *name)
{
	return IS_ONE_OF(name, of_connection) || headers_have(headers, "Connection", name);
}

/* ---- requests ---- */

static int check_line(const struct forward *f, struct err *err)
{
	const char *at = f->target;

	while ((unsigned char)*at > ' ' && *at != 0x7F)
		at++;
	if (*at || (*f->target && *f->target != '/' && *f->target != '?'))
		return err_set(err, ERR_INVALID, -EINVAL,
			"the target of a request to a port must be a path, of printable characters");
	if (strspn(f->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_") !=
			strlen(f->method) ||
		strcasecmp(f->method, "CONNECT") == 0)
		return err_set(err, ERR_INVALID, -EINVAL, "that method is not for a port");
	return 0;
}

/* The cookies that are not ours. */
static int put_cookies(const char *value, struct buf *out)
{
	const char *before = "Cookie: ", *after = "";
	int r = 0;

	while (*value && r == 0) {
		size_t len, name;

		value += strspn(value, "; \t");
		len = strcspn(value, ";");
		name = strcspn(value, "=; \t");
		if (len &&
			!(name == strlen(FORWARD_COOKIE) &&
				strncmp(value, FORWARD_COOKIE, name) == 0)) {
			r = buf_appendf(out, "%s%.*s", before, (int)len, value);
			before = "; ";
			after = "\r\n";
		}
		value += len;
	}
	return r == 0 ? buf_append(out, after, strlen(after)) : r;
}

/* Whether it is the client's own view of this server. */
static bool is_our_origin(const struct forward *f, const char *origin)
{
	size_t len = strlen(f->proto);

	return strncasecmp(origin, f->proto, len) == 0 && strncmp(origin + len, "://", 3) == 0 &&
		strcasecmp(origin + len + 3, f->host) == 0;
}

static int put_header(const struct forward *f, const struct http_header *h, struct buf *out)
{
	if (stays_behind(f->headers, h->name) || IS_ONE_OF(h->name, of_request))
		return 0;
	if (strcasecmp(h->name, "Authorization") == 0 && !f->authorization)
		return 0;
	if (strcasecmp(h->name, "Cookie") == 0)
		return put_cookies(h->value, out);
	if (strcasecmp(h->name, "Origin") == 0 && is_our_origin(f, h->value))
		return buf_appendf(out, "Origin: http://localhost:%u\r\n", f->port);
	return buf_appendf(out, "%s: %s\r\n", h->name, h->value);
}

static int put_own_headers(const struct forward *f, struct buf *out)
{
	const char *earlier = headers_get(f->headers, "X-Forwarded-For");
	int r = buf_appendf(out,
		"X-Forwarded-For: %s%s%s\r\nX-Forwarded-Host: %s\r\nX-Forwarded-Proto: %s\r\n",
		earlier ? earlier : "", earlier ? ", " : "", f->client, f->host, f->proto);

	if (r == 0 && *f->prefix)
		r = buf_appendf(out, "X-Forwarded-Prefix: %s\r\n", f->prefix);
	if (r == 0 && f->upgrade)
		r = buf_appendf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n",
			headers_get(f->headers, "Upgrade"));
	else if (r == 0)
		r = buf_appendf(out, "Connection: close\r\n");
	if (r == 0 && f->body == FORWARD_LENGTH)
		r = buf_appendf(out, "Content-Length: %llu\r\n", (unsigned long long)f->body_len);
	else if (r == 0 && f->body == FORWARD_CHUNKED)
		r = buf_appendf(out, "Transfer-Encoding: chunked\r\n");
	return r;
}

int forward_request(const struct forward *f, struct buf *out, struct err *err)
{
	struct http_header h;
	int r = check_line(f, err);

	if (r < 0)
		return r;
	r = buf_appendf(out, "%s %s%s HTTP/1.1\r\nHost: localhost:%u\r\n", f->method,
		*f->target == '/' ? "" : "/", f->target, f->port);
	for (size_t pos = 0; r == 0 && headers_next(f->headers, &pos, &h);)
		r = put_header(f, &h, out);
	if (r == 0)
		r = put_own_headers(f, out);
	if (r == 0)
		r = buf_append(out, "\r\n", 2);
	return r < 0 ? err_set(err, ERR_TOO_LARGE, r, "the request's headers are too long") : 0;
}

/* ---- answers ---- */

static int put(struct buf *out, const char *name, const char *value)
{
	return headers_add(out, name, strlen(name), value, strlen(value));
}

/* Behind "scheme://authority" where that is this server by one of its names; else NULL. */
static const char *skip_own_origin(const struct forward *f, const char *url)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "0.0.0.0"};
	const char *host = strstr(url, "://"), *end;
	char own[32];
	size_t len;

	if (!host || (strncasecmp(url, "http:", 5) != 0 && strncasecmp(url, "https:", 6) != 0))
		return NULL;
	host += 3;
	len = strcspn(host, "/?#");
	end = host + len;
	if (len == strlen(f->host) && strncasecmp(host, f->host, len) == 0)
		return end;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(own, sizeof(own), "%s:%u", names[i], f->port);
		if (f->port == 80 && len == strlen(names[i]))
			own[len] = '\0';
		if (len == strlen(own) && strncasecmp(host, own, len) == 0)
			return end;
	}
	return NULL;
}

static bool is_below(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	return len && strncmp(path, prefix, len) == 0 && strchr("/?#", path[len]);
}

static int put_location(const struct forward *f, const char *url, struct buf *out)
{
	_cleanup_buf_ struct buf text = buf_init(out->max);
	const char *path = skip_own_origin(f, url);
	int r;

	/* Relative, or on another server. */
	if (!path && (url[0] != '/' || url[1] == '/'))
		return put(out, "Location", url);
	if (!path)
		path = url;
	/* A server that knows of the prefix has put it there itself. */
	r = buf_appendf(&text, "%s%s%s", is_below(path, f->prefix) ? "" : f->prefix,
		*path == '/' ? "" : "/", path);
	return r < 0 ? r : put(out, "Location", text.data);
}

static bool is_attribute(const char *at, size_t len, const char *name)
{
	size_t n = strcspn(at, "=; \t");

	return n <= len && n == strlen(name) && strncasecmp(at, name, n) == 0;
}

/* Without Domain, which would hand the cookie to other servers; Path below the prefix. */
static int put_set_cookie(const struct forward *f, const char *value, struct buf *out)
{
	_cleanup_buf_ struct buf cookie = buf_init(out->max);
	int r = 0;

	for (bool first = true; *value && r == 0; first = false) {
		size_t len = strcspn(value, ";"), path;

		path = strcspn(value, "=;");
		path += value[path] == '=';
		path += strspn(value + path, " \t");
		if (first)
			r = buf_append(&cookie, value, len);
		else if (is_attribute(value, len, "Path") && value[path] == '/')
			r = buf_appendf(&cookie, "; Path=%s%.*s", f->prefix, (int)(len - path),
				value + path);
		else if (!is_attribute(value, len, "Domain"))
			r = buf_appendf(&cookie, "; %.*s", (int)len, value);
		value += len;
		value += strspn(value, "; \t");
	}
	return r < 0 ? r : put(out, "Set-Cookie", cookie.data ? cookie.data : "");
}

static int put_answer_header(const struct forward *f, const struct http_header *h, struct buf *out)
{
	if (strcasecmp(h->name, "X-Request-Id") == 0)
		return 0; /* the answer has ours */
	if (*f->prefix && IS_ONE_OF(h->name, of_origin))
		return 0;
	if (strcasecmp(h->name, "Location") == 0)
		return put_location(f, h->value, out);
	if (strcasecmp(h->name, "Set-Cookie") == 0)
		return put_set_cookie(f, h->value, out);
	return put(out, h->name, h->value);
}

int forward_answer(const struct forward *f, const struct buf *headers, struct buf *out)
{
	struct http_header h;
	int r = 0;

	for (size_t pos = 0; r == 0 && headers_next(headers, &pos, &h);) {
		if (!stays_behind(headers, h.name))
			r = put_answer_header(f, &h, out);
	}
	if (r == 0 && *f->prefix)
		r = put(out, "Content-Security-Policy", sandbox);
	if (r == 0 && *f->prefix && !headers_get(headers, "Access-Control-Allow-Origin"))
		r = put(out, "Access-Control-Allow-Origin", "*");
	return r;
}
