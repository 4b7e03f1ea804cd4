/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor that guests see under hardware virtualisation: the host's own.
 *
 * What was captured on one goes on only on another of the same kind that has all its features: the guest has looked
 * for these once, and uses them from then on. More of them do no harm, so that a newer kernel or microcode is not in the way.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	GUEST_CPU_WORDS = 14,
	GUEST_CPU_WHY_SIZE = 400,
};

struct guest_cpu {
	char vendor[16]; /* "AuthenticAMD"; "" where there is no hardware virtualisation */
	char name[52];   /* the maker's, for people */
	/* Of one model Intel has made several products, told apart by their stepping. */
	unsigned int family, model, stepping;
	uint32_t features[GUEST_CPU_WORDS]; /* words of CPUID, as KVM offers them */
};

/* Reads this host's; a negative errno from KVM. */
int guest_cpu_read(int kvm_fd, struct guest_cpu *ret);

/* For a manifest. */
json_t *guest_cpu_to_json(const struct guest_cpu *cpu);
/* 0, or -EPROTO for what is none. */
int guest_cpu_from_json(const json_t *json, struct guest_cpu *ret);

/*
 * Whether what was made on the one goes on on the other. Where not, why[] says "<the one>, and this is <the other>", or which features
 * are missing.
 */
bool guest_cpu_fits(const struct guest_cpu *made_on, const struct guest_cpu *here,
	char why[GUEST_CPU_WHY_SIZE]);
