/* SPDX-License-Identifier: Apache-2.0 */
/* One program: the daemon, the template builder and the command line. */
#include "bake/cmd_template_build.h"
#include "cli/cli.h"
#include "daemon/daemon.h"

static int serve(int argc, char **argv, struct err *err)
{
	return daemon_main(argc, argv); /* prints its own errors */
}

int main(int argc, char **argv)
{
	static const struct cli_command local[] = {
		{NULL, "serve", "run the daemon", serve},
		{"template", "build", "build a template on this machine", cmd_template_build},
	};

	return cli_main(argc, argv, local, ARRAY_SIZE(local));
}
