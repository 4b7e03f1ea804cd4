/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the daemon: forms, the environment, what is refused; the file that clients read. */
#include <errno.h>

#include "scratch.h"

#include "daemon/config.h"
#include "daemon/credentials.h"

static const char *no_env(const char *name)
{
	return NULL;
}

static const char *some_env(const char *name)
{
	if (strcmp(name, "PANDASTACK_LISTEN") == 0)
		return "[::1]:1";
	if (strcmp(name, "PANDASTACK_KEEP") == 0)
		return "1";
	return strcmp(name, "PANDASTACK_DATA_DIR") == 0 ? "" : NULL;
}

static const char *bad_env(const char *name)
{
	return strcmp(name, "PANDASTACK_KEEP") == 0 ? "yes" : NULL;
}

/* Parses up to six words. */
static int parse(config_env_fn *env, struct serve_config *config, struct err *err,
	const char *const *words)
{
	char *argv[8] = {(char *)(uintptr_t) "serve"};
	int argc = 1;

	for (; *words; words++)
		argv[argc++] = (char *)(uintptr_t)*words;
	return serve_config_parse(argc, argv, env, config, err);
}

#define PARSE(env, ...) parse(env, &config, &err, (const char *const[]){__VA_ARGS__, NULL})

static void test_forms(void **state)
{
	struct serve_config config;
	struct err err = {0};

	assert_int_equal(PARSE(no_env, NULL), 0);
	assert_string_equal(config.listen, "127.0.0.1:8080");
	assert_null(config.data_dir);
	assert_false(config.keep);
	assert_int_equal(config.max_output, 1 << 20);
	assert_int_equal(config.max_results, 32 << 20);
	assert_int_equal(config.prespawn, 1);
	assert_int_equal(config.warm, 0);
	assert_string_equal(config.snapshot_compression, "none");
	assert_int_equal(PARSE(no_env, "--snapshot-compression=zstd"), 0);
	assert_string_equal(config.snapshot_compression, "zstd");
	assert_int_equal(PARSE(no_env, "--warm=3", "--prespawn", "0"), 0);
	assert_int_equal(config.prespawn, 0);
	assert_int_equal(config.warm, 3);
	assert_int_equal(PARSE(no_env, "--max-output=1K", "--max-results", "256MiB"), 0);
	assert_int_equal(config.max_output, 1 << 10);
	assert_int_equal(config.max_results, 256 << 20);
	assert_int_equal(PARSE(no_env, "--listen=1.2.3.4:5", "--data-dir", "/x", "--keep",
				 "--log-format=json"),
		0);
	assert_string_equal(config.listen, "1.2.3.4:5");
	assert_string_equal(config.data_dir, "/x");
	assert_true(config.keep);
	assert_int_equal(PARSE(some_env, "--log-level", "debug"), 0);
	assert_string_equal(config.listen, "[::1]:1");
	assert_true(config.keep);
	assert_null(config.data_dir); /* empty is unset */
	assert_int_equal(PARSE(some_env, "--listen=x:1"), 0);
	assert_string_equal(config.listen, "x:1");
	assert_int_equal(PARSE(no_env, "--help", "--nonsense"), 0);
	assert_true(config.help);
}

static void test_refused(void **state)
{
	static const struct {
		const char *word, *msg;
	} cases[] = {
		{"--lisen=1", "there is no option --lisen; did you mean --listen?"},
		{"--data", "there is no option --data; did you mean --data-dir?"},
		{"--log", "there is no option --log; did you mean --log-format?"},
		{"--zzzzzz", "there is no option --zzzzzz; `pandastack serve --help` lists them"},
		{"--listen", "--listen needs a value: --listen HOST:PORT"},
		{"--listen=", "--listen must not be empty"},
		{"--log-level=loud", "--log-level must be one of error|warn|info|debug"},
		{"--log-level=error|warn", "--log-level must be one of error|warn|info|debug"},
		{"--snapshot-compression=gzip", "--snapshot-compression must be one of none|zstd"},
		{"--max-output=1000",
			"--max-output must be a size between 1KiB and 64MiB, such as 64MiB"},
		{"--warm=65", "--warm must be a number between 0 and 64, such as 64"},
		{"--warm=-1", "--warm must be a number between 0 and 64, such as 64"},
		{"--max-output=65MiB",
			"--max-output must be a size between 1KiB and 64MiB, such as 64MiB"},
		{"--max-results=",
			"--max-results must be a size between 1KiB and 256MiB, such as 256MiB"},
		{"--keep=1", "--keep takes no value"},
		{"extra", "\"extra\" is too much: `pandastack serve` takes only options"},
	};
	struct serve_config config;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(PARSE(no_env, cases[i].word), -EINVAL);
		assert_string_equal(err.msg, cases[i].msg);
	}
	assert_int_equal(PARSE(bad_env, NULL), -EINVAL);
	assert_string_equal(err.msg, "PANDASTACK_KEEP must be 0 or 1");
}

/* A member of the file, to be freed. */
static char *member(const char *path, const char *key)
{
	json_t *root = json_load_file(path, 0, NULL);
	const char *value = json_string_value(json_object_get(root, key));
	char *copy = strdup(value ? value : "(absent)");

	json_decref(root);
	return copy;
}

static void test_credentials(void **state)
{
	_cleanup_free_ char *db = fs_join(*state, "registry.db"),
			    *path = fs_join(*state, "c/config.json");
	_cleanup_free_ char *key = NULL, *again = NULL, *url = NULL, *other = NULL;
	struct store *store;
	struct auth *auth;
	struct err err = {0};

	assert_int_equal(store_open(db, &store, NULL), 0);
	assert_int_equal(auth_new(store, &auth, NULL), 0);
	assert_int_equal(credentials_update(path, "http://a", auth, &err), 1);
	key = member(path, "api_key");
	assert_true(auth_check(auth, key));
	assert_int_equal(credentials_update(path, "http://b", auth, &err), 0);
	again = member(path, "api_key");
	url = member(path, "api_url");
	assert_string_equal(again, key);
	assert_string_equal(url, "http://b");

	scratch_write(*state, "c/config.json", "{\"token\":\"another's\",\"x\":\"y\"}");
	assert_int_equal(credentials_update(path, "http://c", auth, &err), -EEXIST);
	scratch_write(*state, "c/config.json", "{\"x\":\"y\"}");
	assert_int_equal(credentials_update(path, "http://c", auth, &err), 1);
	other = member(path, "x");
	assert_string_equal(other, "y");
	scratch_write(*state, "c/config.json", "[]");
	assert_int_equal(credentials_update(path, "http://c", auth, &err), -EINVAL);
	auth_free(auth);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_refused),
		scratch_test(test_credentials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
