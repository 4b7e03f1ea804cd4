/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a hostile guest: a line each; the last one is its answer. What comes out is a cell's answer. */
#include <stdint.h>
#include <string.h>

#include "http/cell.h"

static const struct http_limits limits = {MIB(1), MIB(32)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	char *rest = text, *line;
	json_t *last = NULL, *answer;
	struct cell cell;

	cell_init(&cell, &limits);
	while ((line = strsep(&rest, "\n"))) {
		json_decref(last);
		last = json_loads(line, 0, NULL);
		if (!json_is_object(last))
			cell_output(&cell, line[0] == 'e', line, strlen(line));
		else
			cell_event(&cell, last);
	}
	answer = cell_answer(&cell, last);
	if (!json_is_array(json_object_get(answer, "results")))
		__builtin_trap();
	json_decref(answer);
	json_decref(last);
	cell_done(&cell);
	return 0;
}
