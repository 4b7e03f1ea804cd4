/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#include "engine/firecracker_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "engine/kvm_probe.h"
#include "engine/program.h"
#include "version.h"

enum {
	VERSION_MIN = 115, /* 1.15, and the one after it: the newest two that there are */
	VERSION_MAX = 116,
};

static char *program; /* NULL: the one on the PATH */

int firecracker_use(const char *name, struct err *err)
{
	/* Machines start in folders of their own. */
	char *path = strchr(name, '/') ? realpath(name, NULL) : xstrdup(name);

	if (!path)
		return err_set_errno(err, -errno, "can't find Firecracker at %s", name);
	free(program);
	program = path;
	return 0;
}

const char *firecracker_program(void)
{
	return program ? program : "firecracker";
}

char *firecracker_jail(void)
{
	return fs_find_own("pandastack-jail", PANDASTACK_LIBEXEC_DIR "/pandastack-jail");
}

/* Whether its machines can have a network card here; else why not. */
static bool may_have_card(char *why, size_t size)
{
	_cleanup_free_ char *jail = firecracker_jail();
	const char *const argv[] = {jail, "--card", "--check", NULL};
	struct err err;

	why[0] = '\0';
	if (program_output(argv, why, size, &err) == 0)
		return true;
	if (!why[0])
		(void)snprintf(why, size, "%s", err_msg(&err));
	return false;
}

static void add_why(struct engine_info *info, const char *what, const char *why)
{
	size_t len = strlen(info->why);

	(void)snprintf(info->why + len, sizeof(info->why) - len, "; %s: %s", what, why);
}

void firecracker_probe(struct engine_info *ret)
{
	const char *const argv[] = {firecracker_program(), "--version", NULL};
	struct err err = {0};
	char text[1024], no_card[128];
	int version;

	*ret = (struct engine_info){.name = "firecracker",
		.isolation = "microvm",
		.accel = ACCEL_KVM,
		.lacks = {"streams"}};
	if (program_output(argv, text, sizeof(text), &err) < 0) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"Firecracker is missing (%s): docs/engines.md says how to get it",
			err_msg(&err));
		return;
	}
	version = program_parse_version(text, "Firecracker v", ret->version, sizeof(ret->version));
	if (version < VERSION_MIN || version > VERSION_MAX) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"Firecracker %s is not supported: 1.15 and 1.16 are",
			version ? ret->version : "of unknown version");
		return;
	}
	ret->available = kvm_probe(&ret->cpu, ret->why, sizeof(ret->why));
	if (!ret->available || may_have_card(no_card, sizeof(no_card)))
		return;
	ret->lacks[1] = "network";
	add_why(ret, "no network for its machines", no_card);
}

void firecracker_prepare(struct engine_info *info)
{
	char why[128];

	if (!cgroup_prepare(why, sizeof(why)))
		add_why(info, "no cgroups for its machines", why);
}
