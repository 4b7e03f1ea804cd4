/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files lie that ship with the program: definitions, agent, kernel runtime. */
#pragma once

#include "base/err.h"

struct share {
	char *templates; /* definitions and build-rootfs */
	char *runtime;   /* holds pandastack_kernel */
	char *agent;     /* the guest agent's program */
};

/* Beside the program in its build tree, else where `meson install` puts them. */
int share_find(struct share *ret, struct err *err);
void share_done(struct share *s);
#define _cleanup_share_ CLEANUP(share_done)
