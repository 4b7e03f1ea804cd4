/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack gc`: the daemon deletes what nobody needs any more. */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/table.h"
#include "cli/text.h"

enum { TIMEOUT_MS = 600 * 1000 };

static int print(const json_t *answer, bool json, struct err *err)
{
	static const struct table_column columns[] = {
		{"KIND", "kind", table_any},
		{"NAME", "name", table_any},
		{"SIZE", "bytes", table_size},
	};
	const json_t *removed = json_object_get(answer, "removed");
	_cleanup_free_ char *freed = table_size(json_object_get(answer, "freed_bytes"));

	if (json)
		return client_print_json(answer, JSON_INDENT(2), err);
	if (json_array_size(removed) > 0)
		table_print(stdout, table_style_of(stdout), removed, columns, ARRAY_SIZE(columns));
	printf("freed %s\n", freed);
	return 0;
}

int cmd_gc(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	struct progress progress = progress_init("cleaning up…");
	const struct client_request request = {
		.method = "POST",
		.path = "/v1/gc",
		.progress = &progress,
		.timeout_ms = TIMEOUT_MS,
	};
	json_t *answer = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "gc [--json]",
		.about =
			"Deletes what nobody needs any more: old versions of templates that nothing\n"
			"stands on, and what is left of snapshots and forks that were not finished.\n"
			"No sandbox, snapshot or template is lost.\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r == 0)
		r = client_send(client, &request, &answer, err);
	if (r == 0)
		r = print(answer, json, err);
	json_decref(answer);
	return r;
}
