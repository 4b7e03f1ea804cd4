/* SPDX-License-Identifier: Apache-2.0 */
/* Where the command line finds the daemon: environment before file, each name of a member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cli/config.h"

static char dir[] = "/tmp/test_cli_config.XXXXXX";

static void write_config(const char *text)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/pandastack/config.json", dir);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	char path[128];

	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/pandastack", dir);
	return mkdir(path, 0700) < 0 || setenv("XDG_CONFIG_HOME", dir, 1) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/pandastack/config.json", dir);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/pandastack", dir);
	return rmdir(path) < 0 || rmdir(dir) < 0 ? -1 : 0;
}

static int clear_env(void **state)
{
	return unsetenv("PANDASTACK_API") < 0 || unsetenv("PANDASTACK_API_KEY") < 0 ? -1 : 0;
}

static void expect(const char *api, const char *key)
{
	_cleanup_config_ struct config config = {0};
	struct err err = {0};

	assert_int_equal(config_load(&config, &err), 0);
	assert_string_equal(config.api, api);
	if (key)
		assert_string_equal(config.key, key);
	else
		assert_null(config.key);
}

/* Runs first, while there is no file. */
static void test_nothing(void **state)
{
	expect("http://127.0.0.1:8080", NULL);
}

static void test_file(void **state)
{
	write_config("{\"api\": \"http://h:1\", \"api_key\": \"k\"}");
	expect("http://h:1", "k");
	write_config("{\"api_url\": \"http://h:2\", \"token\": \"t\"}");
	expect("http://h:2", "t");
	write_config("{\"apiUrl\": \"http://h:3\", \"apiKey\": \"a\"}");
	expect("http://h:3", "a");
	write_config("{\"api\": 5, \"api_key\": \"\", \"token\": \"t\"}");
	expect("http://127.0.0.1:8080", "t");
}

static void test_environment_wins(void **state)
{
	write_config("{\"api\": \"http://h:1\", \"api_key\": \"k\"}");
	assert_int_equal(setenv("PANDASTACK_API", "http://e:2", 1), 0);
	expect("http://e:2", "k");
	assert_int_equal(setenv("PANDASTACK_API_KEY", "ek", 1), 0);
	expect("http://e:2", "ek");
	write_config("broken");
	expect("http://e:2", "ek"); /* the file is not needed, so it is not read */
	assert_int_equal(setenv("PANDASTACK_API", "", 1), 0);
	write_config("{\"api\": \"http://h:1\"}");
	expect("http://h:1", "ek"); /* empty is as good as unset */
}

static void test_address_is_normalised(void **state)
{
	write_config("{}");
	assert_int_equal(setenv("PANDASTACK_API", "http://e:2/", 1), 0);
	expect("http://e:2", NULL);
	assert_int_equal(setenv("PANDASTACK_API", "http://e:2/v1/", 1), 0);
	expect("http://e:2", NULL);
	assert_int_equal(setenv("PANDASTACK_API", "e:2/v1", 1), 0);
	expect("http://e:2", NULL);
	write_config("{\"api\": \"127.0.0.1:8080\"}");
	assert_int_equal(unsetenv("PANDASTACK_API"), 0);
	expect("http://127.0.0.1:8080", NULL);
}

static void test_broken_file(void **state)
{
	struct config config = {0};
	struct err err = {0};

	write_config("{\"api\": ");
	assert_true(config_load(&config, &err) < 0);
	assert_non_null(strstr(err.msg, "/pandastack/config.json is not a JSON object"));
	write_config("[]");
	assert_true(config_load(&config, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing, clear_env),
		cmocka_unit_test_setup(test_file, clear_env),
		cmocka_unit_test_setup(test_environment_wins, clear_env),
		cmocka_unit_test_setup(test_address_is_normalised, clear_env),
		cmocka_unit_test_setup(test_broken_file, clear_env),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
