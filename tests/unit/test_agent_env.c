/* SPDX-License-Identifier: Apache-2.0 */
/* Environments: their layers, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "env.h"

static const char *get(const struct env *env, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < env->count; i++) {
		if (strncmp(env->vars[i], key, len) == 0 && env->vars[i][len] == '=')
			return env->vars[i] + len + 1;
	}
	return NULL;
}

static void test_set(void **state)
{
	_cleanup_env_ struct env env = {0};

	env_set(&env, "A", "1");
	env_set(&env, "AB", "2");
	env_set(&env, "A", "3");
	assert_int_equal(env.count, 2);
	assert_string_equal(get(&env, "A"), "3");
	assert_string_equal(get(&env, "AB"), "2");
	assert_null(env.vars[2]);
}

static void test_text(void **state)
{
	_cleanup_env_ struct env env = {0};
	char text[] =
		"# A=no\nB=1\n\n  export C=\"two words\"\nD='x'\nE=\"\nno equals\n=none\nF=a=b";

	env_set_text(&env, text);
	assert_int_equal(env.count, 5);
	assert_string_equal(get(&env, "B"), "1");
	assert_string_equal(get(&env, "C"), "two words");
	assert_string_equal(get(&env, "D"), "x");
	assert_string_equal(get(&env, "E"), "\"");
	assert_string_equal(get(&env, "F"), "a=b");
}

static void test_layers(void **state)
{
	_cleanup_env_ struct env env = {0};
	json_t *sandbox = json_pack("{ss ss}", "A", "sandbox", "B", "sandbox");
	json_t *request = json_pack("{ss si}", "B", "request", "C", 5);
	json_t *all;

	env_build(&env, "/no/such/file", "/home/u", "u", sandbox, request);
	assert_string_equal(get(&env, "A"), "sandbox");
	assert_string_equal(get(&env, "B"), "request");
	assert_null(get(&env, "C"));
	assert_string_equal(get(&env, "HOME"), "/home/u");
	assert_string_equal(get(&env, "LANG"), "C.UTF-8");
	all = env_to_json(&env);
	assert_int_equal(json_object_size(all), env.count);
	assert_string_equal(json_string_value(json_object_get(all, "B")), "request");
	json_decref(all);
	json_decref(sandbox);
	json_decref(request);
}

static void test_check(void **state)
{
	static const struct {
		const char *text;
		int fine;
	} cases[] = {{"{}", 1}, {"{\"A\":\"\"}", 1}, {"[]", 0}, {"{\"\":\"x\"}", 0},
		{"{\"A=B\":\"x\"}", 0}, {"{\"A\":1}", 0}, {"{\"A\":null}", 0}};

	assert_null(env_check_json(NULL));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = json_loads(cases[i].text, 0, NULL);

		assert_int_equal(env_check_json(json) == NULL, cases[i].fine);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
