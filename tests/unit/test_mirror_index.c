/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of indexes: which files we stand in for, and what these must hash to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mirror/index.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define PAGE_URL "https://index.example/simple/x/"
#define LOCAL "/pypi/files/x/" HASH "/x-1.whl"

static struct sources sources;

static int read_sources(void **state)
{
	json_t *root = json_pack("{s:{s:s, s:s, s:s, s:[ss]}, s:{s:s, s:s, s:s, s:[s]}}", "pypi",
		"base", "https://index.example/simple/", "host", "index.example", "path",
		"/simple/", "serves", "https://index.example/", "https://files.example/", "npm",
		"base", "https://registry.example/", "host", "registry.example", "path", "/",
		"serves", "https://registry.example/");

	return sources_read(root, &sources, NULL);
}

static int forget_sources(void **state)
{
	sources_done(&sources);
	return 0;
}

/* A page with one file, and what becomes of that entry. */
static json_t *localize(json_t *file)
{
	json_t *page = json_pack("{s:[o]}", "files", file);

	assert_int_equal(index_localize_page(page, &sources.pypi, PAGE_URL, "x"), 0);
	return page;
}

static const char *entry_text(const json_t *page, const char *key)
{
	return json_string_value(
		json_object_get(json_array_get(json_object_get(page, "files"), 0), key));
}

static json_t *file_at(const char *url)
{
	return json_pack("{s:s, s:s, s:{s:s}, s:s}", "filename", "x-1.whl", "url", url, "hashes",
		"sha256", HASH, "requires-python", ">=3.8");
}

static void test_ours(void **state)
{
	static const struct {
		const char *link, *source;
	} files[] = {
		{"../../f/x-1.whl", "https://index.example/f/x-1.whl"},
		{"/f/x-1.whl#sha256=0", "https://index.example/f/x-1.whl"},
		{"https://u:p@files.example/x-1.whl", "https://files.example/x-1.whl"},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		json_t *page = localize(file_at(files[i].link));
		struct digest digest;
		char *url = NULL;

		assert_string_equal(entry_text(page, "url"), LOCAL);
		assert_string_equal(entry_text(page, "requires-python"), ">=3.8");
		assert_int_equal(index_find_python(page, &sources.pypi, HASH, "x-1.whl", &url,
					 &digest),
			0);
		assert_string_equal(url, files[i].source);
		assert_int_equal(digest.len, 32);
		assert_int_equal(digest.bytes[1], 0x23);
		free(url);
		json_decref(page);
	}
}

static void test_not_ours(void **state)
{
	static const char *const links[] = {
		"https://elsewhere.example/x-1.whl",
		"http://files.example/x-1.whl",
		"https://files.example:8443/x-1.whl",
		"https://index.example.evil.example/x-1.whl",
		"https://index.example@evil.example/x-1.whl",
		"file:///etc/passwd",
	};
	struct digest digest;
	char *url = NULL;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		json_t *file = file_at(links[i]), *page;

		/* An index can't say where we go. */
		(void)json_object_set_new(file, "_source", json_string("http://127.0.0.1/"));
		page = localize(file);
		assert_null(strstr(entry_text(page, "url"), "/pypi/"));
		assert_null(entry_text(page, "_source"));
		assert_int_equal(index_find_python(page, &sources.pypi, HASH, "x-1.whl", &url,
					 &digest),
			-ENOENT);
		json_decref(page);
	}
}

static void test_without_a_hash(void **state)
{
	json_t *file = file_at("/x-1.whl"), *page;

	(void)json_object_set_new(file, "hashes", json_pack("{s:s}", "md5", "0"));
	page = localize(file);
	assert_string_equal(entry_text(page, "url"), "https://index.example/x-1.whl");
	json_decref(page);
	file = file_at("/x-1.whl");
	(void)json_object_set_new(file, "filename", json_string("a b.whl"));
	page = localize(file);
	assert_string_equal(entry_text(page, "url"), "https://index.example/x-1.whl");
	json_decref(page);
}

static void test_metadata(void **state)
{
	static const char *const keys[] = {"core-metadata", "dist-info-metadata"};
	struct digest digest;
	char *url = NULL;

	for (size_t i = 0; i < 2; i++) {
		json_t *file = file_at("/x-1.whl"), *page;

		(void)json_object_set_new(file, keys[i], json_pack("{s:s}", "sha256", OTHER));
		page = localize(file);
		assert_int_equal(index_find_python(page, &sources.pypi, HASH, "x-1.whl.metadata",
					 &url, &digest),
			0);
		assert_string_equal(url, "https://index.example/x-1.whl.metadata");
		assert_int_equal(digest.bytes[0], 0xFF);
		free(url);
		assert_int_equal(index_find_python(page, &sources.pypi, HASH, "x-1.whl.asc", &url,
					 &digest),
			-ENOENT);
		assert_int_equal(index_find_python(page, &sources.pypi, OTHER, "x-1.whl", &url,
					 &digest),
			-ENOENT);
		json_decref(page);
		/* Where it can't be checked, it is not said to be there. */
		file = file_at("/x-1.whl");
		(void)json_object_set_new(file, keys[i], json_true());
		page = localize(file);
		assert_null(json_object_get(json_array_get(json_object_get(page, "files"), 0),
			keys[i]));
		json_decref(page);
	}
}

static void test_no_pages(void **state)
{
	static const char *const texts[] = {"{}", "[]", "{\"files\":{}}", "{\"files\":[1]}",
		"{\"files\":[{}]}", "{\"files\":[{\"url\":1}]}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *page = json_loads(texts[i], 0, NULL);

		assert_int_equal(index_localize_page(page, &sources.pypi, PAGE_URL, "x"), -EBADMSG);
		json_decref(page);
	}
	assert_int_equal(index_localize_page(NULL, &sources.pypi, PAGE_URL, "x"), -EBADMSG);
}

/* 64 bytes of zeros, and less. */
#define ZEROS \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="

static void test_npm(void **state)
{
	static const char url[] = "https://registry.example/x/-/x-1.tgz";
	static const struct {
		const char *integrity;
		int r;
	} cases[] = {
		{"sha512-" ZEROS, 0},
		{"sha1-AAAA sha512-" ZEROS "?opt", 0},
		{"sha512-AAAA", -ENOENT},
		{"sha512-" ZEROS "AAAA", -ENOENT},
		{"sha1-AAAA", -ENOENT},
		{"", -ENOENT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *metadata = json_pack("{s:{s:n, s:{s:{s:s, s:s}}}}", "versions", "0", "1",
			"dist", "tarball", url, "integrity", cases[i].integrity);
		struct digest digest = {0};

		assert_int_equal(index_find_npm(metadata, url, &digest), cases[i].r);
		assert_int_equal(digest.len, cases[i].r == 0 ? 64 : 0);
		assert_int_equal(index_find_npm(metadata, "https://registry.example/x/-/x-2.tgz",
					 &digest),
			-ENOENT);
		json_decref(metadata);
	}
	assert_int_equal(index_find_npm(NULL, url, NULL), -ENOENT);
}

static void test_digests(void **state)
{
	struct digest_state s;
	struct digest d;

	/* SHA-256 of "abc" (FIPS 180-2). */
	assert_int_equal(
		digest_from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			&d),
		0);
	digest_begin(&s, &d);
	digest_update(&s, "ab", 2);
	digest_update(&s, "c", 1);
	assert_true(digest_end(&s));
	digest_begin(&s, &d);
	digest_update(&s, "abd", 3);
	assert_false(digest_end(&s));
	assert_int_equal(digest_from_integrity("sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05"
					       "ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==",
				 &d),
		0);
	digest_begin(&s, &d);
	digest_update(&s, "abc", 3);
	assert_true(digest_end(&s));
	assert_int_equal(digest_from_hex("BA", &d), -EINVAL);
}

/* A host without pip and npm says so; one that says nothing has not been asked. */
static void test_a_host_without(void **state)
{
	struct sources none = {0};
	struct err err;

	assert_int_equal(sources_read(json_pack("{s:n, s:n}", "pypi", "npm"), &none, &err), 0);
	assert_null(none.pypi.base);
	assert_null(none.npm.base);
	sources_done(&none);
	assert_int_equal(sources_read(json_pack("{s:n}", "pypi"), &none, &err), -EINVAL);
	sources_done(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ours),
		cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_without_a_hash),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_no_pages),
		cmocka_unit_test(test_npm),
		cmocka_unit_test(test_digests),
		cmocka_unit_test(test_a_host_without),
	};

	return cmocka_run_group_tests(tests, read_sources, forget_sources);
}
