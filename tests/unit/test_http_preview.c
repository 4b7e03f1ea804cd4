/* SPDX-License-Identifier: Apache-2.0 */
/* Signed links: what they carry, what ends them, what a changed one is worth, and the paths that they are for. */
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "http/preview.h"
#include "scratch.h"

#define ID "0123abcd-0123-0123-0123-0123456789ab"

static const struct preview_key key = {{1, 2, 3}};

static char *make(int64_t expires_s, const char *path)
{
	struct preview p = {.id = ID, .port = 8080, .expires_s = expires_s, .paths = json_array()};
	char *token;

	if (path)
		json_array_append_new(p.paths, json_string(path));
	token = preview_sign(&key, &p);
	assert_non_null(token);
	preview_done(&p);
	return token;
}

static void test_carries(void **state)
{
	_cleanup_free_ char *token = make(1000, "/a");
	_cleanup_preview_ struct preview p = {0};

	assert_int_equal(strspn(token,
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				 "0123456789-_."),
		strlen(token)); /* a part of a path as it is */
	assert_int_equal(preview_verify(&key, token, 999, &p, NULL), 0);
	assert_string_equal(p.id, ID);
	assert_int_equal(p.port, 8080);
	assert_int_equal(p.expires_s, 1000);
	assert_int_equal(json_array_size(p.paths), 1);
}

static void refused(const struct preview_key *k, const char *token, int64_t now_s, const char *why)
{
	struct preview p = {.port = 77};
	struct err err = {0};

	if (preview_verify(k, token, now_s, &p, &err) != -EACCES)
		fail_msg("accepted: %s", token);
	assert_int_equal(err.kind, ERR_UNAUTHORIZED);
	assert_non_null(strstr(err.msg, why));
	assert_int_equal(p.port, 77);
}

static void test_expires(void **state)
{
	_cleanup_free_ char *token = make(1000, NULL);

	refused(&key, token, 1000, "expired");
}

/* No character may be another one. */
static void test_changed(void **state)
{
	_cleanup_free_ char *token = make(1000, NULL);
	static const struct preview_key other = {{1, 2, 4}};

	for (size_t i = 0; token[i]; i++) {
		char was = token[i];

		token[i] = was == 'A' ? 'B' : 'A';
		refused(&key, token, 0, "not valid");
		token[i] = was;
	}
	refused(&other, token, 0, "not valid");
	token[strlen(token) - 1] = '\0';
	refused(&key, token, 0, "not valid");
}

static void test_no_token(void **state)
{
	static const char *const bad[] = {"", ".", "..", "a", "a.b", "e30", "e30.",
		"e30.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
	_cleanup_free_ char *longest = xcalloc(1, 1 << 20);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refused(&key, bad[i], 0, "not valid");
	memset(longest, 'e', (1 << 20) - 1);
	longest[1000] = '.';
	refused(&key, longest, 0, "not valid");
}

static bool allows(const char *path, const char *target)
{
	_cleanup_preview_ struct preview p = {.paths = json_array()};

	if (path)
		json_array_append_new(p.paths, json_string(path));
	return preview_allows(&p, target);
}

static void test_paths(void **state)
{
	static const char *const no[] = {"/", "/apple", "/App", "/ap", "/app/../x", "/app/..",
		"/x/../app/", "/app/%2e%2e/x", "/app/%2E./x", "/app//x", "/app/.", "/app%2Fx",
		"/app/x%2f..%2fy", "/app/a\\..\\b", "/app/%5c", "/app/%ff", "/app/%zz", "/?/app/",
		"", "?/app/"};
	static const char *const yes[] = {"/app", "/app/", "/app/x", "/app/x?a=/../", "/app?x",
		"/%61pp/x", "/app/...", "/app/.well-known", "/app/a%20b"};

	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		if (allows("/app", no[i]))
			fail_msg("allowed: %s", no[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (!allows("/app", yes[i]))
			fail_msg("not allowed: %s", yes[i]);
	}
	assert_true(allows(NULL, "/anything/../at//all"));
	assert_true(allows("/app/", "/app/x"));
	assert_false(allows("/app/", "/app"));
	assert_true(allows("/", "/x"));
	assert_true(allows("/", "?x"));
}

static void test_key_file(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "preview.key");
	struct preview_key made = {0}, again = {0}, none = {0};
	struct err err = {0};
	struct stat st;

	assert_int_equal(preview_key_load(path, &made, NULL), 0);
	assert_memory_not_equal(&made, &none, sizeof(made));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(preview_key_load(path, &again, NULL), 0);
	assert_memory_equal(&made, &again, sizeof(made));
	assert_int_equal(truncate(path, 31), 0);
	assert_int_equal(preview_key_load(path, &again, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "remove it"));
	assert_int_equal(truncate(path, 33), 0);
	assert_int_equal(preview_key_load(path, &again, &err), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_carries),
		cmocka_unit_test(test_expires),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_no_token),
		cmocka_unit_test(test_paths),
		scratch_test(test_key_file),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
