/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a Firecracker here that we can use? */
#include "engine/firecracker_probe.h"

#include <stdio.h>

#include "engine/kvm_probe.h"
#include "engine/program.h"

enum {
	VERSION_MIN = 115, /* 1.15, and the one after it: the newest two that there are */
	VERSION_MAX = 116,
};

void firecracker_probe(struct engine_info *ret)
{
	static const char *const argv[] = {FIRECRACKER_PROGRAM, "--version", NULL};
	struct err err = {0};
	char text[1024];
	int version;

	*ret = (struct engine_info){.name = "firecracker",
		.isolation = "microvm",
		.accel = ACCEL_KVM,
		.lacks = {"network"}};
	if (program_output(argv, text, sizeof(text), &err) < 0) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"Firecracker is missing (" FIRECRACKER_PROGRAM
			" on the PATH): docs/engines.md says how to get it");
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
}
