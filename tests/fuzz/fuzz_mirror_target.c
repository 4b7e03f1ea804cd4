/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of requests to the package cache: names that come out are names, and a file's own target leads to it. */
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "mirror/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size), *again = NULL;
	struct target t, other;

	target_parse(text, &t);
	if (t.name)
		assert(!strstr(t.name, "..") || t.name[0] != '.');
	if (t.kind == TARGET_PYTHON_FILE) {
		again = target_of_file(t.name, t.hash, t.file);
		target_parse(again, &other);
		assert(other.kind == t.kind && strcmp(other.file, t.file) == 0);
		assert(!strchr(t.file, '/') && t.file[0] != '.');
		target_done(&other);
	}
	target_done(&t);
	return 0;
}
