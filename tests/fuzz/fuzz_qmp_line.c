/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from QEMU: each is taken whole, and never more than there is. */
#include <stdint.h>

#include "engine/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 0, used;
	json_t *json;

	while (qmp_parse_line((const char *)data + at, size - at, &json, &used) > 0) {
		if (!json_is_object(json) || used == 0 || used > size - at ||
			data[at + used - 1] != '\n')
			__builtin_trap();
		json_decref(json);
		at += used;
	}
	return 0;
}
