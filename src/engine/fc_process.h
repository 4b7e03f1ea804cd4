/* SPDX-License-Identifier: Apache-2.0 */
/* Firecracker's process: its folder, its fifos, and the jail that it is started in. */
#pragma once

#include <stdbool.h>

#include "engine/engine.h"

/* The memory that the machine stands on, to be freed: a captured state may have all of it (*ret_own), else it is the template's. */
char *fc_process_memory(const struct vm_spec *spec, bool *ret_own);

/* Opens our end of its console. */
int fc_process_open_console(struct vm *vm, int dir_fd, struct err *err);

/*
 * Prepares the vm's folder (`dir_fd`) and starts Firecracker in it: fills pid, pidfd and console_fd. *ret_log_fd, to be closed, is
 * where it logs, also after an error.
 */
int fc_process_start(struct vm *vm, const struct vm_spec *spec, int dir_fd, int *ret_log_fd,
	struct err *err);
