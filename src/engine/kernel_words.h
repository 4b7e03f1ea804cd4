/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's command line, as far as it is the same with all engines; what each word is for stands in docs/engines.md. */
#pragma once

#define KERNEL_WORDS \
	"console=ttyS0 quiet panic=-1 random.trust_cpu=on " \
	"tsc=reliable no_timer_check nowatchdog nokaslr mitigations=off " \
	"initcall_blacklist=cmos_init " \
	"psi=0 transparent_hugepage=never audit=0 lsm=landlock,yama"
