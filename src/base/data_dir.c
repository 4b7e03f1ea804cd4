/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon keeps its data (XDG Base Directory Specification). */
#include "base/data_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

int data_dir_default(char **ret, struct err *err)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		*ret = strdup("/var/lib/pandastack");
	else if (xdg && xdg[0] == '/') /* the specification: ignore relative ones */
		*ret = fs_join(xdg, "pandastack");
	else if (home && home[0] == '/')
		*ret = fs_join(home, ".local/share/pandastack");
	else
		return err_set(err, ERR_INVALID, -EINVAL,
			"there is no home folder ($HOME); say where with --data-dir");
	if (!*ret)
		abort();
	return 0;
}
