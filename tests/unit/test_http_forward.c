/* SPDX-License-Identifier: Apache-2.0 */
/* What of a request and its answer a proxy passes on, changes, and keeps. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/forward.h"
#include "http/headers.h"

#define PREFIX "/v1/sandboxes/x/proxy/8000"

/* "Name: value" lines. */
static struct buf headers(const char *const *lines)
{
	struct buf list = buf_init(4096);

	for (; *lines; lines++) {
		size_t n = strcspn(*lines, ":");

		assert_int_equal(headers_add(&list, *lines, n, *lines + n + 1,
					 strlen(*lines + n + 1)),
			0);
	}
	return list;
}

static struct forward request(const struct buf *list)
{
	return (struct forward){
		.method = "GET",
		.target = "/a?b",
		.headers = list,
		.port = 8000,
		.host = "api.example:8080",
		.proto = "http",
		.prefix = "",
		.client = "10.1.2.3",
	};
}

#define LIST(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* The head that such a request becomes: `want` is between its first two lines and the last ones. */
static void becomes(struct forward *f, const char *first, const char *want, const char *last)
{
	_cleanup_buf_ struct buf out = buf_init(8192);
	_cleanup_free_ char *all = NULL;

	assert_int_equal(forward_request(f, &out, NULL), 0);
	assert_true(
		asprintf(&all,
			"%s HTTP/1.1\r\nHost: localhost:8000\r\n%sX-Forwarded-For: 10.1.2.3\r\n"
			"X-Forwarded-Host: api.example:8080\r\nX-Forwarded-Proto: http\r\n%s\r\n",
			first, want, last) > 0);
	assert_string_equal(out.data, all);
}

static void test_request(void **state)
{
	_cleanup_buf_ struct buf list = headers(LIST("Host: api.example:8080", "Accept: */*",
		"Authorization: Bearer key", "X-Own: 1", "x-own: 2",
		"Referer: http://api/?access_token=k", "Expect: 100-continue",
		"X-Forwarded-Host: forged", "X-Forwarded-Prefix: /forged"));
	struct forward f = request(&list);

	becomes(&f, "GET /a?b", "Accept: */*\r\nX-Own: 1\r\nx-own: 2\r\n", "Connection: close\r\n");
	f.prefix = PREFIX;
	f.authorization = true;
	becomes(&f, "GET /a?b",
		"Accept: */*\r\nAuthorization: Bearer key\r\nX-Own: 1\r\nx-own: 2\r\n",
		"X-Forwarded-Prefix: " PREFIX "\r\nConnection: close\r\n");
}

static void test_forwarded_for(void **state)
{
	_cleanup_buf_ struct buf list = headers(LIST("X-Forwarded-For: 192.0.2.1")),
				 out = buf_init(4096);
	struct forward f = request(&list);

	assert_int_equal(forward_request(&f, &out, NULL), 0);
	assert_non_null(strstr(out.data, "\r\nX-Forwarded-For: 192.0.2.1, 10.1.2.3\r\n"));
}

static void test_targets(void **state)
{
	static const char *const bad[] = {"*", "a", "http://x/", "/a b", "/a\r\nX: y", "/\x01",
		"/\x7F", "/a\tb"};
	_cleanup_buf_ struct buf list = headers(LIST());
	struct forward f = request(&list);

	f.target = "";
	becomes(&f, "GET /", "", "Connection: close\r\n");
	f.target = "?q";
	becomes(&f, "GET /?q", "", "Connection: close\r\n");
	f.target = "/%2F/../\xC3\xA4;x";
	becomes(&f, "GET /%2F/../\xC3\xA4;x", "", "Connection: close\r\n");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf out = buf_init(4096);

		f.target = bad[i];
		if (forward_request(&f, &out, NULL) != -EINVAL)
			fail_msg("passed on: %s", bad[i]);
	}
}

static void test_methods(void **state)
{
	static const char *const bad[] = {"GET / HTTP/1.1\r\nX:", "CONNECT", "G\tT", "G:T"};
	_cleanup_buf_ struct buf list = headers(LIST());
	struct forward f = request(&list);

	f.method = "PROPFIND";
	becomes(&f, "PROPFIND /a?b", "", "Connection: close\r\n");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf out = buf_init(4096);

		f.method = bad[i];
		assert_int_equal(forward_request(&f, &out, NULL), -EINVAL);
	}
}

/* What the client said of its body and its connection is said anew, or not at all. */
static void test_bodies(void **state)
{
	_cleanup_buf_ struct buf list = headers(LIST("Content-Length: 5", "content-length: 6",
		"Transfer-Encoding: chunked", "transfer-encoding: identity", "TE: trailers",
		"Trailer: X", "Connection: close, X-Hop , accept", "X-Hop: 1", "Accept: x",
		"Keep-Alive: 5", "Proxy-Connection: x", "Upgrade: websocket", "Type: t"));
	struct forward f = request(&list);

	f.body = FORWARD_LENGTH;
	f.body_len = 12345678901;
	becomes(&f, "GET /a?b", "Type: t\r\n",
		"Connection: close\r\nContent-Length: 12345678901\r\n");
	f.body = FORWARD_CHUNKED;
	becomes(&f, "GET /a?b", "Type: t\r\n",
		"Connection: close\r\nTransfer-Encoding: chunked\r\n");
	f.body = FORWARD_NO_BODY;
	f.upgrade = true;
	becomes(&f, "GET /a?b", "Type: t\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
}

static void test_cookies(void **state)
{
	_cleanup_buf_ struct buf list = headers(LIST("Cookie: a=1; " FORWARD_COOKIE "=secret;b=2",
		"Cookie: " FORWARD_COOKIE "=secret", "Cookie: x" FORWARD_COOKIE "=mine"));
	struct forward f = request(&list);

	becomes(&f, "GET /a?b", "Cookie: a=1; b=2\r\nCookie: x" FORWARD_COOKIE "=mine\r\n",
		"Connection: close\r\n");
}

static void origin(const char *sent, const char *proto, const char *want)
{
	_cleanup_free_ char *line = NULL, *wanted = NULL;
	_cleanup_buf_ struct buf out = buf_init(4096), list = {0};
	struct forward f;

	assert_true(asprintf(&line, "Origin:%s", sent) > 0);
	assert_true(asprintf(&wanted, "\r\nOrigin: %s\r\n", want) > 0);
	list = headers(LIST(line));
	f = request(&list);
	f.proto = proto;
	assert_int_equal(forward_request(&f, &out, NULL), 0);
	if (!strstr(out.data, wanted))
		fail_msg("%s", out.data);
}

static void test_origins(void **state)
{
	origin("http://api.example:8080", "http", "http://localhost:8000");
	origin("HTTP://API.example:8080", "http", "http://localhost:8000");
	origin("https://api.example:8080", "https", "http://localhost:8000");
	origin("https://api.example:8080", "http", "https://api.example:8080");
	origin("http://api.example:80800", "http", "http://api.example:80800");
	origin("http://evil.example", "http", "http://evil.example");
	origin("null", "http", "null");
}

static void test_too_long(void **state)
{
	_cleanup_buf_ struct buf list = headers(LIST("A: 1")), out = buf_init(40);
	struct forward f = request(&list);
	struct err err = {0};

	assert_int_equal(forward_request(&f, &out, &err), -EMSGSIZE);
	assert_int_equal(err.kind, ERR_TOO_LARGE);
}

/* ---- answers ---- */

/* The one header that this one becomes; NULL: none. */
static void answered(const char *prefix, const char *line, const char *want)
{
	_cleanup_buf_ struct buf none = headers(LIST()), list = headers(LIST(line)),
				 out = buf_init(4096);
	struct forward f = request(&none);
	struct http_header h;
	size_t pos = 0;
	char got[512] = "(none)";

	f.prefix = prefix;
	assert_int_equal(forward_answer(&f, &list, &out), 0);
	if (headers_next(&out, &pos, &h) && strcmp(h.name, "Content-Security-Policy") != 0)
		(void)snprintf(got, sizeof(got), "%s: %s", h.name, h.value);
	assert_string_equal(got, want ? want : "(none)");
}

static void test_answer(void **state)
{
	static const char *const dropped[] = {"Connection: close", "Keep-Alive: 1",
		"Transfer-Encoding: chunked", "Content-Length: 4", "Upgrade: h2c", "Trailer: x",
		"X-Request-Id: theirs"};

	answered("", "Content-Type: text/html", "Content-Type: text/html");
	answered("", "X-Empty:", "X-Empty: ");
	answered("", "Strict-Transport-Security: max-age=1",
		"Strict-Transport-Security: max-age=1");
	answered(PREFIX, "Strict-Transport-Security: max-age=1", NULL);
	answered(PREFIX, "clear-site-data: *", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		answered("", dropped[i], NULL);
		answered(PREFIX, dropped[i], NULL);
	}
}

static void test_named_by_connection(void **state)
{
	_cleanup_buf_ struct buf none = headers(LIST()),
				 list = headers(LIST("Connection: X-Hop", "X-Hop: 1", "B: 2")),
				 out = buf_init(4096);
	struct forward f = request(&none);

	assert_int_equal(forward_answer(&f, &list, &out), 0);
	assert_int_equal(out.len, 4);
	assert_memory_equal(out.data,
		"B\0"
		"2",
		4);
}

static void test_locations(void **state)
{
	answered("", "Location: /login", "Location: /login");
	answered(PREFIX, "Location: /login", "Location: " PREFIX "/login");
	answered(PREFIX, "Location: login", "Location: login");
	answered(PREFIX, "Location: ?q", "Location: ?q");
	answered(PREFIX, "Location: //other/x", "Location: //other/x");
	answered(PREFIX, "Location: https://other/x", "Location: https://other/x");
	answered(PREFIX, "Location: " PREFIX "/x", "Location: " PREFIX "/x");
	answered(PREFIX, "Location: " PREFIX "1/x", "Location: " PREFIX PREFIX "1/x");
	answered(PREFIX, "Location: http://localhost:8000/x?y", "Location: " PREFIX "/x?y");
	answered("", "Location: http://localhost:8000/x?y", "Location: /x?y");
	answered("", "Location: HTTP://127.0.0.1:8000", "Location: /");
	answered(PREFIX, "Location: http://[::1]:8000?q", "Location: " PREFIX "/?q");
	answered("", "Location: http://localhost:80001/x", "Location: http://localhost:80001/x");
	answered("", "Location: http://localhost/x", "Location: http://localhost/x");
	answered(PREFIX, "Location: https://api.example:8080/x", "Location: " PREFIX "/x");
	answered(PREFIX, "Location: http://api.example:8080" PREFIX "/x", "Location: " PREFIX "/x");
}

static void test_set_cookies(void **state)
{
	answered("", "Set-Cookie: a=1; Path=/; HttpOnly", "Set-Cookie: a=1; Path=/; HttpOnly");
	answered("", "Set-Cookie: a=1; Domain=localhost; domain=x;DOMAIN", "Set-Cookie: a=1");
	answered(PREFIX, "Set-Cookie: a=1;path = /; Secure",
		"Set-Cookie: a=1; Path=" PREFIX "/; Secure");
	answered(PREFIX, "Set-Cookie: a=1; Path=/b/c", "Set-Cookie: a=1; Path=" PREFIX "/b/c");
	answered(PREFIX, "Set-Cookie: a=1; Path=x; Max-Age=5",
		"Set-Cookie: a=1; Path=x; Max-Age=5");
	answered(PREFIX, "Set-Cookie: Domain=Path=/", "Set-Cookie: Domain=Path=/");
}

static void test_sandboxed(void **state)
{
	_cleanup_buf_ struct buf none = headers(LIST()), out = buf_init(4096),
				 again = buf_init(4096);
	_cleanup_buf_ struct buf own = headers(LIST("Content-Security-Policy: default-src 'self'",
		"Access-Control-Allow-Origin: https://a"));
	struct forward f = request(&none);
	const char *csp;

	assert_int_equal(forward_answer(&f, &none, &out), 0);
	assert_int_equal(out.len, 0);
	f.prefix = PREFIX;
	assert_int_equal(forward_answer(&f, &none, &out), 0);
	csp = headers_get(&out, "Content-Security-Policy");
	assert_non_null(csp);
	assert_memory_equal(csp, "sandbox ", 8);
	assert_null(strstr(csp, "allow-same-origin"));
	assert_string_equal(headers_get(&out, "Access-Control-Allow-Origin"), "*");
	/* A browser holds a document to all policies that it has. */
	assert_int_equal(forward_answer(&f, &own, &again), 0);
	assert_string_equal(headers_get(&again, "Content-Security-Policy"), "default-src 'self'");
	assert_string_equal(headers_get(&again, "Access-Control-Allow-Origin"), "https://a");
	assert_non_null(memmem(again.data, again.len, csp, strlen(csp)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_forwarded_for),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_cookies),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_named_by_connection),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_set_cookies),
		cmocka_unit_test(test_sandboxed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
