/* SPDX-License-Identifier: Apache-2.0 */
/* template.json: what is accepted is within its bounds, what is not says why. */
#include "bake/definition.h"
#include "core/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_definition_ struct definition *d = NULL;
	struct err err = {0};

	if (definition_parse((const char *)data, size, "d", &d, &err) < 0) {
		if (d || err.kind != ERR_INVALID || !err.msg[0])
			__builtin_trap();
	} else if (!template_name_ok(d->name) || (d->from && !template_name_ok(d->from)) ||
		d->cpus < 1 || d->cpus > 64 || d->memory_bytes < MIB(128) ||
		d->disk_bytes < MIB(64)) {
		__builtin_trap();
	}
	return 0;
}
