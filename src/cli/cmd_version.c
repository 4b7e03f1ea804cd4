/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack version`: that of this program and of the daemon. */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/text.h"
#include "version.h"

int cmd_version(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *clean = NULL;
	struct err why = {0};
	json_t *daemon = NULL, *both;
	const char *semver;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "version [--json]",
		.about = "Shows the version of this program, and of the daemon where one runs.\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r < 0)
		return r;
	r = client_json(client, "GET", "/version", NULL, &daemon, &why);
	if (json) {
		both = json_pack("{s:s, s:o?}", "client", PANDASTACK_VERSION, "daemon", daemon);
		r = client_print_json(both, JSON_INDENT(2), err);
		json_decref(both);
		return r;
	}
	semver = json_string_value(json_object_get(daemon, "semver"));
	clean = text_clean(semver ? semver : "unknown");
	printf("pandastack %s\n", PANDASTACK_VERSION);
	if (r == 0)
		printf("daemon     %s at %s\n", clean, client_api(client));
	else
		printf("daemon     none (%s)\n", err_msg(&why));
	json_decref(daemon);
	return 0;
}
