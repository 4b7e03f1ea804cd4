/* SPDX-License-Identifier: Apache-2.0 */
/* Does hardware virtualisation really work here? */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/guest_cpu.h"

/*
 * True when /dev/kvm opens and a vCPU runs 64-bit code at hardware speed: *ret is the processor that guests see then. why[] says what
 * was found either way, in words for a log line. Takes less than 0.2 s, at most 2 s. Not for two threads at once (it borrows
 * SIGRTMIN for a moment).
 *
 * Opening the device is not enough: some clouds offer a KVM that interprets guests instruction by
 * instruction, 1,000 times slower than the hardware and slower than QEMU's own translation, and on
 * which a stock kernel does not come up.
 */
bool kvm_probe(struct guest_cpu *ret, char *why, size_t size);
