/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from Firecracker's API socket, whole and cut. */
#include <stdint.h>

#include "engine/fc_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fc_answer a;

	if (fc_api_parse((const char *)data, size, &a) > 0) {
		if (a.json && !json_is_object(a.json))
			__builtin_trap();
		fc_answer_done(&a);
	}
	return 0;
}
