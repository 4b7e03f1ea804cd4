/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the daemon: a word for each line. */
#include <stdint.h>
#include <string.h>

#include "daemon/config.h"

enum { WORDS_MAX = 64 };

static const char *no_env(const char *name)
{
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	char *argv[WORDS_MAX + 1] = {text}, *rest = text;
	struct serve_config config;
	struct err err = {0};
	int argc = 1;

	while (argc < WORDS_MAX && (argv[argc] = strsep(&rest, "\n")))
		argc++;
	if (serve_config_parse(argc, argv, no_env, &config, &err) < 0 && !err.msg[0])
		__builtin_trap();
	return 0;
}
