/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: parsing and help from one table. */
#include "cli/opts.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "cli/text.h"

enum {
	HELP = 'h',
	FIRST_LONG = UCHAR_MAX + 1, /* what getopt_long() returns for opts[0]; letters are below */
	HELP_COLUMN = 26,
};

static int bad_usage(const struct opts_spec *spec, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, -EINVAL, "%s\nusage: pandastack %s", what, spec->usage);
}

static int add_pair(const struct opt *opt, const char *text, struct err *err)
{
	const char *equals = strchr(text, '=');
	_cleanup_free_ char *key = NULL;

	if (!equals || equals == text)
		return err_set(err, ERR_INVALID, -EINVAL, "--%s takes %s, not '%s'", opt->name,
			opt->arg, text);
	key = text_format("%.*s", (int)(equals - text), text);
	if (!*opt->pairs)
		*opt->pairs = json_object();
	if (json_object_set_new(*opt->pairs, key, json_string(equals + 1)) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "--%s: '%s' is not UTF-8", opt->name,
			text);
	return 0;
}

static int take(const struct opt *opt, const char *value, struct err *err)
{
	assert(opt); /* getopt_long() returns what fill_tables() gave it */
	if (opt->flag)
		*opt->flag = true;
	else if (opt->text)
		*opt->text = value;
	else if (opt->pairs)
		return add_pair(opt, value, err);
	else if (parse_duration_ms(value, 1, (int64_t)LIMIT_TTL_SECONDS * 1000, opt->span_ms) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"--%s takes a time such as 30, 90s, 5m or 2h, not '%s'", opt->name, value);
	return 0;
}

static void print_help(const struct opts_spec *spec)
{
	printf("usage: pandastack %s\n\n%s\nOptions:\n", spec->usage, spec->about);
	for (size_t i = 0; i < spec->n_opts; i++) {
		const struct opt *opt = &spec->opts[i];
		int n = opt->letter ? printf("  -%c, ", opt->letter) : printf("      ");

		n += printf("--%s%s%s", opt->name, opt->arg ? " " : "", opt->arg ? opt->arg : "");
		printf("%*s%s\n", MAX(HELP_COLUMN - n, 1), "", opt->help);
	}
	printf("  -h, --help%*sshow this text\n", HELP_COLUMN - 12, "");
	if (spec->examples)
		printf("\nExamples:\n%s", spec->examples);
}

/* The row for what getopt_long() returned: a letter, or FIRST_LONG and up. */
static const struct opt *find(const struct opts_spec *spec, int c)
{
	if (c >= FIRST_LONG)
		return &spec->opts[c - FIRST_LONG];
	for (size_t i = 0; i < spec->n_opts; i++) {
		if (spec->opts[i].letter == c)
			return &spec->opts[i];
	}
	return NULL;
}

static void fill_tables(const struct opts_spec *spec, struct option *longs, char *letters)
{
	*letters++ = ':'; /* tell a missing argument from an unknown option */
	*letters++ = HELP;
	for (size_t i = 0; i < spec->n_opts; i++) {
		const struct opt *opt = &spec->opts[i];
		int takes = opt->arg ? required_argument : no_argument;

		longs[i] = (struct option){opt->name, takes, NULL, FIRST_LONG + (int)i};
		if (opt->letter) {
			*letters++ = opt->letter;
			if (opt->arg)
				*letters++ = ':';
		}
	}
	longs[spec->n_opts] = (struct option){"help", no_argument, NULL, HELP};
}

/* getopt_long() leaves the culprit in optopt (a letter) or just before optind. */
static int bad_option(const struct opts_spec *spec, int c, char **argv, struct err *err)
{
	_cleanup_free_ char *what = NULL;
	const char *problem = c == ':' ? "needs an argument" : "is not an option of this command";

	if (optopt > 0 && optopt < FIRST_LONG)
		what = text_format("-%c %s", optopt, problem);
	else
		what = text_format("%s %s", argv[optind - 1], problem);
	return bad_usage(spec, err, what);
}

int opts_parse(const struct opts_spec *spec, int *argc, char ***argv, struct err *err)
{
	struct option longs[OPTS_MAX + 2] = {0};
	char letters[2 * OPTS_MAX + 3] = {0};
	int c, r;

	assert(spec->n_opts <= OPTS_MAX);
	fill_tables(spec, longs, letters);
	optind = 0; /* glibc: start anew */
	opterr = 0;
	while ((c = getopt_long(*argc, *argv, letters, longs, NULL)) != -1) {
		if (c == HELP) {
			print_help(spec);
			return 0;
		}
		if (c == ':' || c == '?')
			return bad_option(spec, c, *argv, err);
		r = take(find(spec, c), optarg, err);
		if (r < 0)
			return r;
	}
	*argc -= optind;
	*argv += optind;
	if (*argc < spec->min_args)
		return bad_usage(spec, err, "an argument is missing");
	if (*argc > spec->max_args) {
		_cleanup_free_ char *what =
			text_format("'%s' is one argument too many", (*argv)[spec->max_args]);

		return bad_usage(spec, err, what);
	}
	return 1;
}
