/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of package managers. */
#include "packages.h"

#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/macros.h"
#include "file_io.h"

static const struct {
	const char *name, *link;
} managers[] = {
	{"pip", "/etc/xdg/pip/pip.conf"},
	{"uv", "/etc/xdg/uv/uv.toml"},
	{"npm", "/usr/local/lib/node_modules/npm/npmrc"},
	{"apt", "/etc/apt/apt.conf.d/10pandastack"},
};

static char *path_of(const char *root, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/run/pandastack-%s.conf", root, name) < 0)
		abort(); /* out of memory */
	return path;
}

void packages_init(void)
{
	(void)fs_mkdirs("/etc/xdg/pip", 0755, NULL);
	(void)fs_mkdirs("/etc/xdg/uv", 0755, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(managers); i++) {
		_cleanup_free_ char *path = path_of("", managers[i].name);

		/* apt complains of a link that leads nowhere. Where a file is there already, or the package manager is not, it stays so. */
		if (file_put(path, "", 0644) == 0)
			(void)!symlink(path, managers[i].link);
	}
}

void packages_set(struct agent *agent, const json_t *settings)
{
	if (json_equal(agent->packages, settings) || (!agent->packages && !settings))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(managers); i++) {
		_cleanup_free_ char *path = path_of(agent->config.root, managers[i].name);
		const char *text = json_string_value(json_object_get(settings, managers[i].name));

		(void)file_put(path, text ? text : "", 0644); /* without it, the source is asked */
	}
	json_decref(agent->packages);
	agent->packages = json_deep_copy(settings);
}
