/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a command: one table gives the parsing and the text of `--help`.
 *
 *	const struct opt opts[] = {
 *		{.letter = 't', .name = "template", .arg = "NAME", .text = &name, .help = "…"},
 *	};
 *	const struct opts_spec spec = {.usage = "…", .opts = opts, .n_opts = ARRAY_SIZE(opts)};
 *
 *	r = opts_parse(&spec, &argc, &argv, err);
 *	if (r <= 0)
 *		return r;
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { OPTS_MAX = 16 };

/* What is given goes to the one target that is not NULL; it keeps its value where nothing is. */
struct opt {
	char letter; /* 0: none */
	const char *name;
	const char *arg; /* what the help calls its argument; NULL for a flag */
	const char *help;
	bool *flag;
	const char **text;
	int64_t *span_ms; /* "30", "250ms", "5m", "2h" */
	json_t **pairs;   /* an object that K=V is added to; made at the first */
};

struct opts_spec {
	const char *usage;    /* behind "pandastack " */
	const char *about;    /* what it does; every line ends in "\n" */
	const char *examples; /* the same, indented; NULL for none */
	const struct opt *opts;
	size_t n_opts;
	int min_args, max_args; /* besides options */
};

/*
 * 1: go on, *argc and *argv are what is left; 0: the help was asked for and printed; or a negative
 * errno. Options and arguments may be mixed; what follows "--" is no option.
 */
int opts_parse(const struct opts_spec *spec, int *argc, char ***argv, struct err *err);

#define OPT_JSON(target) \
	{ \
		.name = "json", .flag = (target), .help = "print the API's JSON" \
	}
