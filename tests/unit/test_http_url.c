/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of requests: parts, decoding, and what is refused; the routes they lead to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/route.h"

static void test_parts(void **state)
{
	struct url url;

	assert_int_equal(url_parse("/v1/a%20b/%2Fx+y?path=%2Ftmp%2Fa+b%2B&flag&=v&e=&path=2", &url,
				 NULL),
		0);
	assert_int_equal(url.n_segments, 3);
	assert_string_equal(url.segments[1], "a b");
	assert_string_equal(url.segments[2], "/x+y");
	assert_string_equal(url_query(&url, "path"), "/tmp/a b+");
	assert_string_equal(url_query(&url, "flag"), "");
	assert_string_equal(url_query(&url, "e"), "");
	assert_string_equal(url_query(&url, ""), "v");
	assert_null(url_query(&url, "other"));
	url_done(&url);
	assert_int_equal(url_parse("/", &url, NULL), 0);
	assert_int_equal(url.n_segments, 1);
	assert_int_equal(url.n_query, 0);
	url_done(&url);
}

static void test_refused(void **state)
{
	static const char *const bad[] = {"", "*", "v1", "http://x/v1", "/%", "/%2", "/%2x", "/%g0",
		"/a%00b", "/%ff", "/\xFF", "/?a=%", "/?%ff=1", "/?a=%00",
		"/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3",
		"/?1&2&3&4&5&6&7&8&9&0&1&2&3&4&5&6&7&8&9&0&1&2&3&4&5&6&7&8&9&0&1&2&3"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};
		struct url url;

		if (url_parse(bad[i], &url, &err) != -EINVAL || err.kind != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		url_done(&url);
	}
}

/* Copies the pattern of the route, or the failure's code, and the first parameter. */
static void find(const char *method, const char *target, char pattern[64], char param[64],
	char allow[ROUTE_ALLOW_SIZE])
{
	const char *params[HTTP_PARAMS_MAX] = {0};
	const struct route *route;
	struct err err = {0};
	struct url url;
	int r;

	assert_int_equal(url_parse(target, &url, NULL), 0);
	r = route_find(method, &url, &route, params, allow, &err);
	(void)snprintf(pattern, 64, "%s", r < 0 ? err_code(err.kind) : route->pattern);
	(void)snprintf(param, 64, "%s", params[0] ? params[0] : "");
	url_done(&url);
}

static void test_routes(void **state)
{
	static const struct {
		const char *method, *target, *pattern, *param, *allow;
	} cases[] = {
		{"GET", "/healthz", "/healthz", "", ""},
		{"HEAD", "/v1/sandboxes/a%2Fb", "/v1/sandboxes/{id}", "a/b", ""},
		{"GET", "/v1/templates/builds", "/v1/templates/builds/*", "", ""},
		{"PUT", "/v1/apps/x/y/z", "/v1/apps/*", "", ""},
		{"ANY", "/v1/sandboxes/x/proxy/80", "/v1/sandboxes/{id}/proxy/{port}", "x", ""},
		{"GET", "/v1/sandboxes/x/proxy/80/", "not_found", "", ""},
		{"GET", "/v1/sandboxes/", "not_found", "", ""},
		{"GET", "/v1/sandboxes/x/exec/more", "not_found", "", ""},
		{"GET", "/v1/sandboxes/x/", "not_found", "", ""},
		{"GET", "/", "not_found", "", ""},
		{"GET", "/v1", "not_found", "", ""},
		{"GET", "/healthzz", "not_found", "", ""},
		{"GET", "/health", "not_found", "", ""},
		{"PATCH", "/v1/sandboxes", "request.method", "", "POST, GET, HEAD"},
		{"GET", "/v1/sandboxes/x/exec", "request.method", "", "POST"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char pattern[64], param[64], allow[ROUTE_ALLOW_SIZE];

		find(cases[i].method, cases[i].target, pattern, param, allow);
		assert_string_equal(pattern, cases[i].pattern);
		assert_string_equal(param, cases[i].param);
		assert_string_equal(allow, cases[i].allow);
	}
}

static void test_query_values(void **state)
{
	struct url url;
	struct err err;
	int64_t n = 7;
	bool flag = true;

	assert_int_equal(url_parse("/x?n=12&m=-1&w=1x&e=&yes=1&true=true&no=0&false=false&on=on",
				 &url, &err),
		0);
	assert_int_equal(url_query_int(&url, "other", 0, 9, &n, &err), 0);
	assert_int_equal(n, 7);
	assert_int_equal(url_query_int(&url, "n", 0, 12, &n, &err), 0);
	assert_int_equal(n, 12);
	assert_int_equal(url_query_int(&url, "n", 0, 11, &n, &err), -EINVAL);
	assert_string_equal(err.msg, "`n` must be a whole number from 0 to 11");
	assert_int_equal(url_query_int(&url, "m", 0, 11, &n, &err), -EINVAL);
	assert_int_equal(url_query_int(&url, "w", 0, 11, &n, &err), -EINVAL);
	assert_int_equal(url_query_int(&url, "e", 0, 11, &n, &err), -EINVAL);
	assert_int_equal(n, 12);
	assert_int_equal(url_query_flag(&url, "no", &flag, &err), 0);
	assert_false(flag);
	assert_int_equal(url_query_flag(&url, "yes", &flag, &err), 0);
	assert_true(flag);
	assert_int_equal(url_query_flag(&url, "false", &flag, &err), 0);
	assert_false(flag);
	assert_int_equal(url_query_flag(&url, "true", &flag, &err), 0);
	assert_int_equal(url_query_flag(&url, "other", &flag, &err), 0);
	assert_true(flag);
	assert_int_equal(url_query_flag(&url, "on", &flag, &err), -EINVAL);
	assert_int_equal(url_query_flag(&url, "e", &flag, &err), -EINVAL);
	assert_int_equal(err.kind, ERR_INVALID);
	url_done(&url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_query_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
