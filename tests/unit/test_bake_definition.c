/* SPDX-License-Identifier: Apache-2.0 */
/* template.json: what it means, and that every wrong key, type and bound is named. */
#include <errno.h>

#include "bake/definition.h"
#include "scratch.h"

static struct definition *parse(const char *text)
{
	struct definition *d = NULL;
	struct err err = {0};

	if (definition_parse(text, strlen(text), "/d", &d, &err) < 0)
		fail_msg("%s", err.msg);
	return d;
}

static void test_defaults(void **state)
{
	_cleanup_definition_ struct definition *d =
		parse("{\"name\": \"base\", \"description\": \"x\"}");

	assert_string_equal(d->dir, "/d");
	assert_string_equal(d->name, "base");
	assert_string_equal(d->description, "x");
	assert_null(d->from);
	assert_null(d->kernel);
	assert_int_equal(d->cpus, 1);
	assert_true(d->memory_bytes == MIB(512));
	assert_true(d->disk_bytes == (uint64_t)8 << 30);
}

static void test_all_keys(void **state)
{
	_cleanup_definition_ struct definition *d = parse(
		"{\"name\": \"a\", \"description\": \"\", \"from\": \"base\", \"suite\": \"bookworm\","
		" \"packages\": [\"curl\"], \"requirements\": \"r.txt\", \"script\": \"setup.sh\","
		" \"cpu\": 64, \"memory_mb\": 65536, \"disk_mb\": 1048576, \"kernel\": \"python\"}");

	assert_string_equal(d->from, "base");
	assert_string_equal(d->kernel, "python");
	assert_int_equal(d->cpus, 64);
	assert_true(d->memory_bytes == (uint64_t)64 << 30);
	assert_true(d->disk_bytes == (uint64_t)1 << 40);
}

static void test_null_from(void **state)
{
	_cleanup_definition_ struct definition *d =
		parse("{\"name\": \"a\", \"description\": \"x\", \"from\": null}");

	assert_null(d->from);
}

static void refused(const char *text, const char *why)
{
	struct definition *d = NULL;
	struct err err = {0};

	if (definition_parse(text, strlen(text), "/d", &d, &err) == 0)
		fail_msg("accepted: %s", text);
	assert_int_equal(err.kind, ERR_INVALID);
	assert_int_equal(err.os, -EINVAL);
	if (strncmp(err.msg, "/d/template.json", 16) != 0 || !strstr(err.msg, why))
		fail_msg("%s, for %s", err.msg, text);
	assert_null(d);
}

#define WITH(more) "{\"name\": \"a\", \"description\": \"x\", " more "}"

static void test_bad_json(void **state)
{
	refused("", "line");
	refused("{\n\n", "line 3");
	refused("[]", "not an object");
	refused("7", "line");
	refused(WITH("\"cpu\": 1, \"cpu\": 2"), "duplicate");
	refused(WITH("\"cpu\": 1") "x", "line");
}

static void test_bad_keys(void **state)
{
	refused(WITH("\"memory\": 1"), "unknown key \"memory\"");
	refused(WITH("\"Kernel\": \"python\""), "unknown key \"Kernel\"");
	refused(WITH("\"a\\nb\": 1"), "unknown key \"a?b\"");
}

static void test_bad_texts(void **state)
{
	refused("{\"description\": \"x\"}", "\"name\"");
	refused("{\"name\": 1, \"description\": \"x\"}", "\"name\"");
	refused("{\"name\": \"../x\", \"description\": \"x\"}", "\"name\"");
	refused("{\"name\": \"\", \"description\": \"x\"}", "\"name\"");
	refused("{\"name\": \"a\"}", "\"description\"");
	refused("{\"name\": \"a\", \"description\": null}", "\"description\"");
	refused(WITH("\"from\": \"A\""), "\"from\"");
	refused(WITH("\"from\": 7"), "\"from\"");
	refused(WITH("\"from\": false"), "\"from\"");
	refused(WITH("\"kernel\": \"ruby\""), "\"kernel\"");
	refused(WITH("\"kernel\": true"), "\"kernel\"");
	refused(WITH("\"kernel\": null"), "\"kernel\"");
	refused(WITH("\"suite\": 12"), "\"suite\"");
	refused(WITH("\"script\": []"), "\"script\"");
	refused(WITH("\"requirements\": {}"), "\"requirements\"");
	refused(WITH("\"packages\": \"curl\""), "\"packages\"");
	refused(WITH("\"packages\": [\"curl\", 1]"), "\"packages\"");
}

static void test_bad_numbers(void **state)
{
	static const char *const keys[] = {"cpu", "memory_mb", "disk_mb"};
	static const char *const values[] = {"0", "-1", "1.5", "\"1\"", "null", "true", "[]",
		"1048577", "9223372036854775807"};
	char text[256], name[32];

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			(void)snprintf(text, sizeof(text), WITH("\"%s\": %s"), keys[k], values[v]);
			(void)snprintf(name, sizeof(name), "\"%s\" must be", keys[k]);
			refused(text, name);
		}
	}
	refused(WITH("\"cpu\": 65"), "\"cpu\"");
	refused(WITH("\"memory_mb\": 127"), "\"memory_mb\"");
	refused(WITH("\"disk_mb\": 63"), "\"disk_mb\"");
}

static void test_load(void **state)
{
	_cleanup_definition_ struct definition *d = NULL;
	struct err err = {0};

	assert_true(definition_load(*state, &d, &err) < 0);
	assert_non_null(strstr(err.msg, "template.json"));
	scratch_write(*state, "template.json", WITH("\"cpu\": 2"));
	assert_int_equal(definition_load(*state, &d, &err), 0);
	assert_int_equal(d->cpus, 2);
	assert_string_equal(d->dir, *state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_all_keys),
		cmocka_unit_test(test_null_from),
		cmocka_unit_test(test_bad_json),
		cmocka_unit_test(test_bad_keys),
		cmocka_unit_test(test_bad_texts),
		cmocka_unit_test(test_bad_numbers),
		scratch_test(test_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
