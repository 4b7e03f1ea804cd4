/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of `pandastack serve`, from the command line, then from the environment (api/config.def).
 * Parsing has no effect but the struct; acting on it comes after.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

typedef const char *CONFIG_TEXT;
typedef const char *CONFIG_CHOICE;
typedef uint64_t CONFIG_SIZE;
typedef unsigned int CONFIG_COUNT;
typedef bool CONFIG_FLAG;

/* Strings are borrowed from argv, the environment and the defaults; sizes are in bytes. */
struct serve_config {
#define X(name, type, def, choices, value_name, help) CONFIG_##type name;
#include "config.def"
#undef X
	bool help; /* --help was asked for */
};

/* Looks up an environment variable, as getenv() does. */
typedef const char *config_env_fn(const char *name);

/*
 * Reads argv[1..] (argv[0] is the command's name). -EINVAL (ERR_INVALID) for an option that is not
 * known, with those that look like it; for a bad value; for a word too many.
 */
int serve_config_parse(int argc, char **argv, config_env_fn *env, struct serve_config *ret,
	struct err *err);

void serve_config_help(FILE *out);
