/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files lie that ship with the program. */
#include "bake/share.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/fs.h"
#include "version.h"

void share_done(struct share *s)
{
	free(s->templates);
	free(s->runtime);
	free(s->agent);
	*s = (struct share){0};
}

int share_find(struct share *ret, struct err *err)
{
	_cleanup_free_ char *dir = fs_program_dir();
	_cleanup_free_ char *tree = dir ? fs_join(dir, "../templates/build-rootfs") : NULL;

	if (tree && access(tree, X_OK) == 0) {
		ret->templates = fs_join(dir, "../templates");
		ret->runtime = fs_join(dir, "../runtime");
		ret->agent = fs_join(dir, "agent/agent");
	} else {
		ret->templates = fs_join(PANDASTACK_DATA_DIR, "templates");
		ret->runtime = fs_join(PANDASTACK_DATA_DIR, "runtime");
		ret->agent = fs_join(PANDASTACK_LIBEXEC_DIR, "agent");
	}
	if (access(ret->agent, R_OK) == 0 && access(ret->templates, R_OK) == 0)
		return 0;
	(void)err_set(err, ERR_INTERNAL, -ENOENT,
		"the guest agent is missing (%s): build or install pandastack whole", ret->agent);
	share_done(ret);
	return -ENOENT;
}
