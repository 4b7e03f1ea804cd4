/* SPDX-License-Identifier: Apache-2.0 */
/* How many values a JSON text holds. */
#include "base/json_count.h"

#include <stdbool.h>

size_t json_count_values(const char *text, size_t len)
{
	bool quoted = false;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted)
			n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	}
	return n;
}
