/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: hostile values are escaped and cut, a line is always one line, JSON is JSON. */
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/log.h"

/* Writes one line with stderr led into memory; what came out is in `text`. */
static size_t capture(char *text, size_t size, enum log_level level, const char *msg,
	const struct log_field *fields, size_t n)
{
	_cleanup_close_ int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_close_ int fd = memfd_create("stderr", MFD_CLOEXEC);
	ssize_t len;

	assert_true(saved >= 0 && fd >= 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	log_write(level, msg, fields, n);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	len = pread(fd, text, size - 1, 0);
	assert_true(len >= 0);
	text[len] = '\0';
	return (size_t)len;
}

static void test_text(void **state)
{
	const struct log_field fields[] = {LOG_STR("sandbox", "s1"), LOG_INT("boot_ms", -5)};
	char line[1024];

	log_init(LOG_INFO, false);
	capture(line, sizeof(line), LOG_INFO, "created", fields, 2);
	assert_int_equal(strlen("2026-01-01T00:00:00.000Z"), 24);
	assert_int_equal(line[10], 'T');
	assert_int_equal(line[23], 'Z');
	assert_string_equal(line + 24, " info  created sandbox=\"s1\" boot_ms=-5\n");
}

static void test_level(void **state)
{
	char line[1024];

	log_init(LOG_WARN, false);
	assert_int_equal(capture(line, sizeof(line), LOG_INFO, "x", NULL, 0), 0);
	assert_true(capture(line, sizeof(line), LOG_WARN, "x", NULL, 0) > 0);
}

static void test_hostile_text(void **state)
{
	const struct log_field field = LOG_STR("k", "a\nb=\"c\" \x1B[2J \\ \xFF");
	char line[1024];

	log_init(LOG_INFO, false);
	capture(line, sizeof(line), LOG_INFO, "m", &field, 1);
	assert_string_equal(line + 24, " info  m k=\"a?b=\\\"c\\\" ?[2J \\\\ ?\"\n");
}

static void test_json(void **state)
{
	const struct log_field fields[] = {LOG_STR("k", "a\nb\"\\\xC3\xA4\xFF"), LOG_INT("n", 7)};
	char line[1024];
	size_t len;
	json_t *json;

	log_init(LOG_INFO, true);
	len = capture(line, sizeof(line), LOG_ERROR, "it \"broke\"", fields, 2);
	assert_ptr_equal(strchr(line, '\n'), line + len - 1);
	json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_string_equal(json_string_value(json_object_get(json, "level")), "error");
	assert_string_equal(json_string_value(json_object_get(json, "msg")), "it \"broke\"");
	assert_string_equal(json_string_value(json_object_get(json, "k")), "a?b\"\\\xC3\xA4?");
	assert_int_equal(json_integer_value(json_object_get(json, "n")), 7);
	json_decref(json);
}

/* However long the values are: the line ends, and JSON stays whole. */
static void test_long(void **state)
{
	struct log_field fields[32];
	char value[1000], line[65536];
	size_t len;
	json_t *json;

	memset(value, '"', sizeof(value) - 1); /* doubles when it is escaped */
	value[sizeof(value) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		fields[i] = LOG_STR("key", value);
	for (size_t n = 1; n <= ARRAY_SIZE(fields); n++) {
		log_init(LOG_INFO, false);
		len = capture(line, sizeof(line), LOG_INFO, "m", fields, n);
		assert_in_range(len, 500, 4096);
		assert_ptr_equal(strchr(line, '\n'), line + len - 1);
		log_init(LOG_INFO, true);
		capture(line, sizeof(line), LOG_INFO, "m", fields, n);
		json = json_loads(line, 0, NULL);
		assert_non_null(json);
		json_decref(json);
	}
}

static void test_null_string(void **state)
{
	const char *none = NULL;
	const struct log_field field = LOG_STR("k", none);
	char line[1024];

	log_init(LOG_INFO, false);
	capture(line, sizeof(line), LOG_INFO, "m", &field, 1);
	assert_string_equal(line + 24, " info  m k=\"\"\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_null_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
