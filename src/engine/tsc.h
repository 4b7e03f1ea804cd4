/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of this machine's time stamp counter, in kHz.
 *
 * QEMU's software emulation hands the host's counter to the guest, and a microVM has no other clock to
 * calibrate it against: the guest must be told the rate, or its seconds are too long or too short.
 */
#pragma once

#include <stdint.h>

/* Measures for 100 ms against CLOCK_MONOTONIC; good to a few parts per million. */
uint64_t tsc_measure_khz(void);
