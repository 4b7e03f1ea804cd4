/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell gives back: exit statuses, and charts as files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/output.h"

static void expect_status(const char *json, int want)
{
	json_t *answer = json_loads(json, 0, NULL);

	assert_non_null(answer);
	assert_int_equal(output_status(answer), want);
	json_decref(answer);
}

static void expect_system_exit(const char *value, int want)
{
	json_t *answer = json_pack("{s:i, s:s, s:s*}", "exit_code", 1, "error_name", "SystemExit",
		"error_value", value);

	assert_int_equal(output_status(answer), want);
	json_decref(answer);
}

static void test_status(void **state)
{
	expect_status("{\"exit_code\":0}", 0);
	expect_status("{\"exit_code\":127}", 127);
	expect_status("{\"exit_code\":-1}", 255);
	expect_status("{\"exit_code\":1,\"signal\":9}", 137);
	expect_status("{\"exit_code\":1,\"error_name\":\"ValueError\",\"error_value\":\"3\"}", 1);
	expect_system_exit("3", 3);
	expect_system_exit("0", 0);
	expect_system_exit("-1", 255);
	expect_system_exit("None", 0);
	expect_system_exit("", 0);
	expect_system_exit(NULL, 0);
	expect_system_exit("no more data", 1);
}

/* The status at the end of a stream; the error's kind is *kind where it is negative. */
static int feed(const char *events, enum err_kind *kind)
{
	_cleanup_output_ struct output out = output_init(NULL);
	struct err err = {0};
	int r = output_feed(events, strlen(events), &out, &err);

	if (r == 0)
		r = output_end(&out, &err);
	*kind = err.kind;
	return r;
}

static void test_end(void **state)
{
	enum err_kind kind;

	assert_int_equal(feed("event: exit\ndata: {\"exit_code\":0}\n\n", &kind), 0);
	assert_int_equal(feed("event: exit\ndata: {\"exit_code\":7}\n\n", &kind), 7);
	assert_int_equal(feed("event: exit\ndata: {\"exit_code\":1,\"signal\":9}\n\n", &kind), 137);
	assert_int_equal(
		feed("event: error\ndata: "
		     "{\"error\":\"t\",\"error_name\":\"SystemExit\",\"error_value\":\"4\"}\n\n"
		     "event: exit\ndata: {\"exit_code\":1}\n\n",
			&kind),
		4);
	assert_true(feed("event: unknown\ndata: {}\n\n", &kind) < 0); /* no end */
	assert_true(feed("event: stdout\ndata: no json\n\n", &kind) < 0);
	assert_true(feed("event: error\ndata: {\"error\":\"gone\",\"code\":\"sandbox.failed\"}\n\n",
			    &kind) < 0);
	assert_int_equal(kind, ERR_SANDBOX_FAILED);
}

static char dir[] = "/tmp/test_cli_output.XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	return rmdir(dir);
}

static void save(struct output *out, const char *json)
{
	json_t *bundle = json_loads(json, 0, NULL);
	struct err err = {0};

	assert_int_equal(output_save(out, bundle, &err), 0);
	json_decref(bundle);
}

static void expect_file(const char *name, const char *want)
{
	char path[128], got[64] = {0};
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, got, sizeof(got) - 1), strlen(want));
	assert_string_equal(got, want);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
}

static void test_save(void **state)
{
	_cleanup_output_ struct output out = output_init(dir);

	save(&out, "{\"text/plain\":\"x\"}");
	save(&out, "{\"image/svg+xml\":\"<svg/>\",\"image/png\":\"UE5H\\n\",\"text/plain\":\"x\"}");
	save(&out, "{\"image/svg+xml\":\"<svg/>\"}");
	save(&out, "{\"image/png\":\"not base64!\"}"); /* told, and no reason to stop */
	save(&out, "{\"image/png\":5}");
	save(&out, "{\"image/jpeg\":\"SlBF\\nRw==\"}");
	assert_int_equal(out.n_saved, 3);
	expect_file("chart-1.png", "PNG");
	expect_file("chart-2.svg", "<svg/>");
	expect_file("chart-3.jpg", "JPEG");
}

static void test_no_folder(void **state)
{
	_cleanup_output_ struct output out = output_init(NULL);

	save(&out, "{\"image/png\":\"UE5H\"}");
	assert_int_equal(out.n_saved, 0);
	assert_int_equal(out.n_unsaved, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_save),
		cmocka_unit_test(test_no_folder),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
