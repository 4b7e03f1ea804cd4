/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are for a server in a sandbox, by host and by path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "http/proxied.h"

#define ID "0123abcd-0123-0123-0123-0123456789ab"
#define ROUTE "/v1/sandboxes/" ID "/proxy/8080"

static void is(const char *host, const char *target, const char *route, const char *rest)
{
	struct proxied p = {0};

	if (!proxied_find(host, target, &p))
		fail_msg("not proxied: %s %s", host ? host : "-", target);
	assert_string_equal(p.route, route);
	assert_string_equal(target + p.prefix_len, rest);
	free(p.route);
}

static void test_by_path(void **state)
{
	is(NULL, ROUTE, ROUTE, "");
	is("127.0.0.1:8080", ROUTE "/", ROUTE, "/");
	is(NULL, ROUTE "?a=/b", ROUTE, "?a=/b");
	is(NULL, ROUTE "/a/../%2F//b?c", ROUTE, "/a/../%2F//b?c");
	is(NULL, "/v1/sandboxes/x/proxy/no-port/", "/v1/sandboxes/x/proxy/no-port", "/");
	is(NULL, "/v1/p/abc.def/x", "/v1/p/abc.def", "/x");
	is(NULL, "/v1/p/abc", "/v1/p/abc", "");
}

static void test_by_host(void **state)
{
	struct proxied p = {0};

	is("8080-" ID ".localhost", "/", ROUTE, "/");
	is("8080-" ID ".localhost:1234", "/v1/sandboxes", ROUTE, "/v1/sandboxes");
	is("8080-0123ABCD-0123-0123-0123-0123456789AB.preview.example.com", "*", ROUTE, "*");
	assert_true(proxied_find("80-" ID ".x", "/", &p));
	assert_true(p.by_host);
	free(p.route);
}

static void test_not(void **state)
{
	static const char *const targets[] = {"/", "/v1/sandboxes/" ID, "/v1/sandboxes//proxy/80",
		"/v1/sandboxes/a/b/proxy/80", "/v1/sandboxes/" ID "/proxy/",
		"/v1/sandboxes/" ID "/proxy", "/v1/p/", "/v1/p", "/v1/ports", "x" ROUTE,
		"/v1/sandboxes/" ID "?/proxy/80"};
	static const char *const hosts[] = {"", "localhost", "8080-" ID, "8080-" ID ":80", ID ".x",
		"-" ID ".x", "0-" ID ".x", "08080-" ID ".x", "65536-" ID ".x", "8080-" ID "0.x",
		"8080-0123abcd.x", "8080-0123abcg-0123-0123-0123-0123456789ab.x", "+80-" ID ".x",
		" 80-" ID ".x", "x.8080-" ID ".y", "8080-" ID "/.x"};
	struct proxied p;

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		if (proxied_find("127.0.0.1:8080", targets[i], &p))
			fail_msg("proxied: %s", targets[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		if (proxied_find(hosts[i], "/", &p))
			fail_msg("proxied: %s", hosts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_path),
		cmocka_unit_test(test_by_host),
		cmocka_unit_test(test_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
