/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every driver leaves in a vm's folder, `vm.json`, and how the process of a machine is found again by it. The process works
 * in that folder, which tells it from another that has got its number since.
 */
#pragma once

#include "engine/engine.h"

/* Fills what all drivers share, with nothing open. */
void vm_init(struct vm *vm, const struct engine_ops *ops, const char *dir, enum accel accel);

/* Notes the process of a machine that was started, for a later daemon. */
int vm_folder_note(const struct vm *vm, struct err *err);

/* Finds the process of a machine that an earlier daemon has started: fills accel, pid, pidfd and cgroup. -ESRCH when it is gone, or is
 * another engine's. */
int vm_folder_find(struct vm *vm, struct err *err);

/* Kills what works in that folder, and removes the cgroup of the machine that did. */
void vm_folder_kill_left(const char *dir);
