/* SPDX-License-Identifier: Apache-2.0 */
/* Who may reach a port of a sandbox. */
#include "http/access.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "http/forward.h"
#include "http/proxied.h"

enum { COOKIE_SECONDS = 24 * 3600 };

static const char in_query[] = "access_token=";

void access_done(struct access *a)
{
	free(a->target);
	free(a->redirect);
	free(a->cookie);
}

static int64_t now_s(void)
{
	return clock_real_ms() / 1000;
}

static PRINTF_LIKE(1, 2) char *print(const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	return text;
}

static int err_path(struct err *err)
{
	return err_set(err, ERR_FORBIDDEN, -EPERM, "this link is not for that path");
}

/* 1 where it is a token for this port, 0 where it is none; ERR_FORBIDDEN. */
static int check_token(const struct http_req *req, const struct access *a, const char *token,
	struct err *err)
{
	_cleanup_preview_ struct preview p = {0};

	if (preview_verify(req->preview_key, token, now_s(), &p, NULL) < 0 || p.port != a->port ||
		strcmp(p.id, a->id) != 0)
		return 0;
	return preview_allows(&p, a->target) ? 1 : err_path(err);
}

/* The same for a key, too. */
static int check_either(const struct http_req *req, const struct access *a, const char *shown,
	struct err *err)
{
	return auth_check(req->auth, shown) ? 1 : check_token(req, a, shown, err);
}

static const char *bearer(const struct http_req *req)
{
	const char *header = headers_get(&req->headers, "Authorization");

	if (!header || strncasecmp(header, "Bearer ", 7) != 0)
		return NULL;
	return header + 7 + strspn(header + 7, " ");
}

/* ---- by header ---- */

static int by_header(const struct http_req *req, struct access *a, struct err *err)
{
	const char *shown = bearer(req);
	int r = shown ? check_either(req, a, shown, err) : 0;

	/* Anything else there may be the server's own; a key of ours never is, not even a wrong one. */
	a->authorization = r == 0 && !(shown && str_starts_with(shown, "pds_"));
	return r;
}

/* ---- by query ---- */

/* Where the query has it; NULL where it has not. */
static char *find_in_query(char *target)
{
	char *at = strchr(target, '?');

	while (at && !str_starts_with(at + 1, in_query))
		at = strchr(at + 1, '&');
	return at ? at + 1 : NULL;
}

/* Takes it out of the target; to be freed. NULL where there is none. */
static char *take_from_query(char *target)
{
	char *at = find_in_query(target), *value, *rest;
	size_t len;

	if (!at)
		return NULL;
	value = at + strlen(in_query);
	len = strcspn(value, "&");
	rest = value + len;
	value = strndup(value, len);
	if (!value)
		abort();
	if (*rest == '&')
		memmove(at, rest + 1, strlen(rest + 1) + 1);
	else
		at[-1] = '\0'; /* the "?" or "&" before it */
	return value;
}

static bool is_browser(const struct http_req *req)
{
	const char *accept = headers_get(&req->headers, "Accept");

	return strcmp(req->method, "GET") == 0 && accept && strstr(accept, "text/html");
}

static char *make_token(const struct http_req *req, const struct access *a)
{
	struct preview p = {
		.port = a->port,
		.expires_s = now_s() + COOKIE_SECONDS,
		.paths = json_array(),
	};
	char *token;

	memcpy(p.id, a->id, sizeof(p.id));
	token = preview_sign(req->preview_key, &p);
	preview_done(&p);
	if (!token)
		abort();
	return token;
}

/* To the same without what was shown: by a cookie where the origin is the port's alone, else by a link. */
static void redirect(const struct http_req *req, struct access *a, const char *shown)
{
	_cleanup_free_ char *made = auth_check(req->auth, shown) ? make_token(req, a) : NULL;
	const char *host = headers_get(&req->headers, "Host"), *proto = http_req_proto(req);
	const char *slash = *a->target == '/' ? "" : "/", *token = made ? made : shown;

	if (!req->by_host) {
		a->redirect = print("/v1/p/%s%s%s", token, slash, a->target);
		return;
	}
	a->redirect = print("%s://%s%s%s", proto, host, slash, a->target);
	a->cookie = print(FORWARD_COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax%s", token,
		strcmp(proto, "https") == 0 ? "; Secure" : "");
}

static int by_query(const struct http_req *req, struct access *a, struct err *err)
{
	_cleanup_free_ char *with = strdup(a->target);
	_cleanup_free_ char *shown = take_from_query(a->target);
	int r = 0;

	if (!with)
		abort();
	if (shown && url_decode(shown, true, err) == 0)
		r = check_either(req, a, shown, err);
	for (char *again; r == 1 && (again = take_from_query(a->target));)
		free(again);
	if (r == 1 && is_browser(req))
		redirect(req, a, shown);
	if (r == 0 && shown && !str_starts_with(shown, "pds_"))
		memcpy(a->target, with, strlen(with) + 1); /* it may be the server's own */
	return r;
}

/* ---- by cookie ---- */

/*
 * A page of somebody else's must not use this browser's cookie. SameSite keeps other sites out, but the hosts of all
 * sandboxes are one site; so what a page of another sandbox asks for is refused, as far as its Origin tells it.
 */
static bool may_use_cookie(const struct http_req *req, const struct access *a)
{
	const char *origin = headers_get(&req->headers, "Origin");
	const char *host = headers_get(&req->headers, "Host"), *suffix = strchr(host, '.');
	struct proxied p;
	bool same;

	if (!origin)
		return true;
	origin = strstr(origin, "://");
	if (!origin || !proxied_find(origin + 3, "/", &p))
		return false;
	same = p.by_host && strstr(p.route, a->id) && strcasecmp(strchr(origin, '.'), suffix) == 0;
	free(p.route);
	return same;
}

static int by_cookie(const struct http_req *req, struct access *a, struct err *err)
{
	struct http_header h;

	if (!req->by_host || !may_use_cookie(req, a))
		return 0;
	for (size_t pos = 0; headers_next(&req->headers, &pos, &h);) {
		const char *at = strcasecmp(h.name, "Cookie") == 0 ? h.value : "";

		while ((at = strstr(at, FORWARD_COOKIE "="))) {
			_cleanup_free_ char *token = NULL;
			int r;

			at += strlen(FORWARD_COOKIE "=");
			token = strndup(at, strcspn(at, "; \t"));
			r = token ? check_token(req, a, token, err) : 0;
			if (r != 0)
				return r;
		}
	}
	return 0;
}

/* ---- all of them ---- */

static int by_link(struct http_req *req, struct access *a, struct err *err)
{
	_cleanup_preview_ struct preview p = {0};
	const char *token = req->params[0];
	int r;

	req->params[0] = a->id; /* which the log names: a token is as good as a key */
	r = preview_verify(req->preview_key, token, now_s(), &p, err);
	if (r < 0)
		return r;
	memcpy(a->id, p.id, sizeof(a->id));
	a->port = p.port;
	if (!preview_allows(&p, a->target))
		return err_path(err);
	/* A key that a client adds to all that it sends is not the server's either. */
	(void)by_header(req, a, NULL);
	(void)by_query(req, a, NULL);
	return 0;
}

static int by_any(struct http_req *req, struct access *a, struct err *err)
{
	uint64_t port;
	int r, more;

	if (parse_u64(req->params[1], 1, UINT16_MAX, &port) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "a port is a number between 1 and 65535");
	if (strlen(req->params[0]) >= sizeof(a->id))
		return err_set(err, ERR_SANDBOX_NOT_FOUND, -ENOENT, "no such sandbox");
	memcpy(a->id, req->params[0], strlen(req->params[0]) + 1);
	a->port = (uint16_t)port;
	r = by_header(req, a, err);
	more = r < 0 ? r : by_query(req, a, err); /* always: it takes out what is ours */
	if (r == 0 || more < 0)
		r = more;
	if (r == 0)
		r = by_cookie(req, a, err);
	if (r == 0)
		return err_set(err, ERR_UNAUTHORIZED, -EACCES,
			"unauthorized: send an API key as \"Authorization: Bearer KEY\" or "
			"?access_token=KEY, or ask for a link with POST .../preview-token");
	return r < 0 ? r : 0;
}

int access_check(struct http_req *req, struct access *ret, struct err *err)
{
	*ret = (struct access){.target = xstrdup(req->target + req->rest)};
	return req->params[1] ? by_any(req, ret, err) : by_link(req, ret, err);
}
