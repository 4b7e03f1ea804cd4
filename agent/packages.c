/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of package managers. */
#include "packages.h"

#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/macros.h"
#include "file_io.h"

static const char *const names[] = {"pip", "uv", "npm", "apt"};
static const char *const links[] = {
	"/etc/xdg/pip/pip.conf",
	"/etc/xdg/uv/uv.toml",
	"/usr/local/lib/node_modules/npm/npmrc",
	"/etc/apt/apt.conf.d/10pandastack",
};
static_assert(ARRAY_SIZE(names) == ARRAY_SIZE(links), "");

static char *path_of(const char *root, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/run/pandastack-%s.conf", root, name) < 0)
		abort(); /* out of memory */
	return path;
}

/* Where something is there already, or that package manager is not, it stays so. */
void packages_init(void)
{
	(void)fs_mkdirs("/etc/xdg/pip", 0755, NULL);
	(void)fs_mkdirs("/etc/xdg/uv", 0755, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = path_of("", names[i]);

		/* apt complains of a link that leads nowhere. */
		if (file_put(path, "", 0644) == 0)
			(void)!symlink(path, links[i]);
	}
}

void packages_set(struct agent *agent, const json_t *settings)
{
	if (json_equal(agent->packages, settings) || (!agent->packages && !settings))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = path_of(agent->config.root, names[i]);
		const char *text = json_string_value(json_object_get(settings, names[i]));

		(void)file_put(path, text ? text : "", 0644); /* without it, the source is asked */
	}
	json_decref(agent->packages);
	agent->packages = json_deep_copy(settings);
}
