/* SPDX-License-Identifier: Apache-2.0 */
/* A template's manifest.json on the disk: loaded within its bounds, or refused as stale. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/fs.h"
#include "core/template.h"

static char root[] = "/tmp/pandastack-fuzz.XXXXXX";
static char path[PATH_MAX];
static struct template_set *set;

static void clean_up(void)
{
	template_set_free(set);
	(void)fs_remove_tree(root, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_template_ struct template *t = NULL;
	int r;

	if (!set) {
		if (!mkdtemp(root) || template_set_new(root, &set, NULL) < 0 ||
			atexit(clean_up) != 0)
			abort();
		(void)snprintf(path, sizeof(path), "%s/base/current", root);
		if (fs_mkdirs(path, 0700, NULL) < 0)
			abort();
		(void)snprintf(path, sizeof(path), "%s/base/current/manifest.json", root);
	}
	if (fs_write_atomic(path, data, size, 0600, NULL) < 0)
		abort();
	r = template_load(set, "base", &t, NULL);
	if (r != -ESTALE && (r != 0 || t->image.cpus < 1 || t->image.memory_bytes < MIB(64)))
		__builtin_trap();
	return 0;
}
