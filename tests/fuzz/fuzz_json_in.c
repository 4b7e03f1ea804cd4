/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: read as every type that a route asks for. */
#include <stdint.h>

#include "http/command.h"
#include "http/json_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct json_in_map_limits limits = {.entries = 2,
		.key_bytes = 8,
		.value_bytes = 8};
	json_t *body = NULL, *map = NULL;
	struct command command;
	int64_t n = 0;
	bool b = false;

	if (json_in_parse((const char *)data, size, &body, NULL) < 0)
		return 0;
	(void)command_read(body, &command, NULL);
	(void)json_in_map(body, "env", &limits, &map, NULL);
	(void)json_in_bool(body, "cmd", &b, NULL);
	if (json_in_int(body, "timeout_seconds", -5, 5, &n, NULL) == 0 && (n < -5 || n > 5))
		__builtin_trap();
	json_decref(body);
	return 0;
}
