/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: what is taken, in which order, and what is refused in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/opts.h"

/* What one parse gave. */
struct parsed {
	bool all;
	const char *name;
	int64_t time_ms;
	json_t *pairs; /* owned */
	int argc;
	char **argv;
	struct err err;
};

enum { ARGS_MAX = 12 };

/* `words` ends with NULL; words[0] is the command's name. */
static int parse(struct parsed *p, char *words[ARGS_MAX])
{
	const struct opt opts[] = {
		{'a', "all", NULL, "all", .flag = &p->all},
		{'n', "name", "NAME", "a name", .text = &p->name},
		{0, "time", "TIME", "a time", .span_ms = &p->time_ms},
		{'m', "pair", "K=V", "a pair", .pairs = &p->pairs},
	};
	const struct opts_spec spec = {
		.usage = "test ARGUMENT...",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 3,
	};

	p->argv = words;
	for (p->argc = 0; words[p->argc];)
		p->argc++;
	return opts_parse(&spec, &p->argc, &p->argv, &p->err);
}

#define WORDS(...) ((char *[ARGS_MAX]){(char[]){"test"}, __VA_ARGS__})
#define W(text) ((char[]){text})

static void test_mixed(void **state)
{
	struct parsed p = {0};

	assert_int_equal(parse(&p,
				 WORDS(W("x"), W("-a"), W("--name=N"), W("y"), W("--time"), W("5m"),
					 W("-m"), W("k=v=w"), W("--pair=e="))),
		1);
	assert_true(p.all);
	assert_string_equal(p.name, "N");
	assert_int_equal(p.time_ms, 300000);
	assert_string_equal(json_string_value(json_object_get(p.pairs, "k")), "v=w");
	assert_string_equal(json_string_value(json_object_get(p.pairs, "e")), "");
	assert_int_equal(p.argc, 2);
	assert_string_equal(p.argv[0], "x");
	assert_string_equal(p.argv[1], "y");
	json_decref(p.pairs);
}

static void test_dashes_end_options(void **state)
{
	struct parsed p = {0};

	assert_int_equal(parse(&p, WORDS(W("x"), W("--"), W("-a"), W("--name"))), 1);
	assert_false(p.all);
	assert_int_equal(p.argc, 3);
	assert_string_equal(p.argv[1], "-a");
	assert_string_equal(p.argv[2], "--name");
}

static void expect_refused(char *words[ARGS_MAX], const char *want)
{
	struct parsed p = {0};

	assert_true(parse(&p, words) < 0);
	assert_int_equal(p.err.kind, ERR_INVALID);
	if (!strstr(p.err.msg, want))
		fail_msg("'%s' lacks '%s'", p.err.msg, want);
	json_decref(p.pairs);
}

static void test_refused(void **state)
{
	expect_refused(WORDS(W("-x")),
		"-x is not an option of this command\nusage: pandastack test");
	expect_refused(WORDS(W("--what")), "--what is not an option");
	expect_refused(WORDS(W("--what=1")), "--what=1 is not an option");
	expect_refused(WORDS(W("x"), W("-n")), "-n needs an argument");
	expect_refused(WORDS(W("x"), W("--name")), "--name needs an argument");
	expect_refused(WORDS(W("x"), W("--time=1x")), "--time takes a time such as 30");
	expect_refused(WORDS(W("x"), W("--time=0")), "--time takes a time");
	expect_refused(WORDS(W("x"), W("-m"), W("k")), "--pair takes K=V, not 'k'");
	expect_refused(WORDS(W("x"), W("-m"), W("=v")), "--pair takes K=V, not '=v'");
	expect_refused(WORDS(W("x"), W("-m"), W("k=\xff")), "is not UTF-8");
	expect_refused(WORDS(NULL), "an argument is missing");
	expect_refused(WORDS(W("1"), W("2"), W("3"), W("4")), "'4' is one argument too many");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_dashes_end_options),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
