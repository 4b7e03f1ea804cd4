/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first boot of a template: the machine comes up, its kernel runtime is put in place and warmed,
 * and memory and device state become files.
 */
#pragma once

#include <jansson.h>

#include "bake/progress.h"
#include "core/template.h"

struct snapshot_job {
	const struct engine_ops *ops;
	const struct machine_image
		*image;       /* its dir holds rootfs.ext4, kernel, initrd, scratch.ext4 */
	const char *work_dir; /* an empty folder for the vm */
	const char
		*runtime_dir; /* the kernel runtime to be copied into the guest, or NULL for none */
	struct progress *progress;
};

/* What the warm kernel runtime said of itself. */
struct snapshot_facts {
	json_t *languages; /* owned; array of names, or NULL where there is no runtime */
};

/*
 * Boots and captures: image->dir gains `memory` and `devices`, and its scratch.ext4 is what the machine
 * had written by then. A boot that hangs is tried once more. On failure the message carries the end of
 * the guest's console.
 */
int snapshot_take(const struct snapshot_job *job, struct snapshot_facts *ret, struct err *err);
