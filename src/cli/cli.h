/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: a table of commands that talk to the daemon over HTTP.
 *
 * A command gets its own name as argv[0] and returns the exit status, or a negative errno with
 * *err filled: the caller prints it and exits as api/errors.def says. -ECANCELED (interrupted) and
 * -EPIPE (nobody reads the output) end the program without a message. Every command understands
 * `--help`.
 */
#pragma once

#include "base/err.h"

typedef int cli_fn(int argc, char **argv, struct err *err);

struct cli_command {
	const char *group; /* the word before the name, as in "sandbox list"; NULL without */
	const char *name;
	const char *summary; /* one line for the overview */
	cli_fn *fn;
};

/* `extra` are the commands that live outside this folder. Returns the exit status. */
int cli_main(int argc, char **argv, const struct cli_command *extra, size_t n_extra);
