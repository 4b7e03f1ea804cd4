/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack template list|rm` and `pandastack engines`: what the daemon has. */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/opts.h"
#include "cli/text.h"

static int print_list(const char *path, const struct table_column *columns, size_t n_columns,
	bool json, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	int r = client_new(&client, err);

	return r < 0 ? r : list_print(client, path, columns, n_columns, json, err);
}

int cmd_template_list(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"NAME", "name", table_any},
		{"SIZE", "size_bytes", table_size},
		{"CPUS", "cpu", table_any},
		{"MEMORY MB", "memory_mb", table_any},
		{"ENGINE", "engine", table_any},
		{"BUILT", "built_at", table_age},
		{"DESCRIPTION", "description", table_any},
	};
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "template list [--json]",
		.about = "Lists what sandboxes can be made from.\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	return r <= 0 ? r : print_list("/v1/templates", columns, ARRAY_SIZE(columns), json, err);
}

int cmd_template_rm(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *escaped = NULL, *path = NULL;
	json_t *answer = NULL;
	bool force = false;
	const struct opt opts[] = {
		{'f', "force", NULL, "even if snapshots or sandboxes stand on it", .flag = &force},
	};
	const struct opts_spec spec = {
		.usage = "template rm NAME [--force]",
		.about =
			"Deletes a template. One that snapshots or sandboxes stand on is kept; by\n"
			"force it loses its name, they go on, and `gc` takes the files that they\n"
			"need away after the last of them.\n",
		.examples = "  pandastack template rm code-interpreter\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r < 0)
		return r;
	escaped = client_escape(argv[0]);
	path = text_format("/v1/templates/%s%s", escaped, force ? "?force=true" : "");
	r = client_json(client, "DELETE", path, NULL, &answer, err);
	if (r == 0 && answer) {
		_cleanup_free_ char *kept = table_size(json_object_get(answer, "kept_bytes"));

		printf("%s are kept for what stands on it; after that `pandastack gc` frees them\n",
			kept);
	}
	json_decref(answer);
	return r;
}

int cmd_engines(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"ENGINE", "name", table_any},
		{"AVAILABLE", "available", table_any},
		{"SELECTED", "selected", table_any},
		{"VERSION", "version", table_any},
		{"ACCELERATOR", "accel", table_any},
		{"ISOLATION", "isolation", table_any},
		{"LACKS", "lacks", table_any},
		{"NOTE", "why", table_any},
	};
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "engines [--json]",
		.about = "Shows the programs that can run sandboxes, whether they can be used on\n"
			 "the daemon's machine, and with which acceleration.\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	return r <= 0 ? r : print_list("/v1/engines", columns, ARRAY_SIZE(columns), json, err);
}
