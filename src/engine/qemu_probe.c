/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a QEMU here that we can use, and with which acceleration? */
#include "engine/qemu_probe.h"

#include <stdio.h>

#include "engine/kvm_probe.h"
#include "engine/program.h"
#include "engine/tsc.h"

#define PACKAGE "qemu-system-x86"

enum { VERSION_MIN = 702 }; /* 7.2: Debian 12's, the oldest that was tried */

void qemu_probe(struct engine_info *ret)
{
	static const char *const argv[] = {QEMU_PROGRAM, "--version", NULL};
	struct err err = {0};
	char text[512];
	int version;

	*ret = (struct engine_info){.name = "qemu", .isolation = "microvm", .accel = ACCEL_TCG};
	if (program_output(argv, text, sizeof(text), &err) < 0) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"QEMU is missing (" QEMU_PROGRAM "): sudo apt-get install " PACKAGE);
		return;
	}
	version = program_parse_version(text, "QEMU emulator version ", ret->version,
		sizeof(ret->version));
	if (version < VERSION_MIN) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"QEMU %s is too old (7.2 at least): install a newer " PACKAGE,
			version ? ret->version : "of unknown version");
		return;
	}
	ret->available = true;
	if (kvm_probe(&ret->cpu, ret->why, sizeof(ret->why)))
		ret->accel = ACCEL_KVM;
	/* Also where there is KVM: templates that were baked for software emulation run here too. */
	ret->tsc_khz = tsc_measure_khz();
}
