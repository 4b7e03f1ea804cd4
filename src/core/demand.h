/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which spare machines are worth having, by what was asked for lately. Pure: the clock and the lock are the caller's.
 *
 * At least `least`. Who has asked for more at once is likely to do it again (the next fork-tree), so as many as the largest
 * burst of the last minute, up to `most`. Those beyond `least` are made when nobody has asked for a moment: who forks a
 * tree needs the processors for what the children are to do.
 */
#pragma once

#include <stdint.h>

#include "core/template.h"

enum { DEMAND_MAX = 64 };

struct demand {
	unsigned int least, most;
	unsigned int burst;   /* asked for since nobody waited for a machine */
	unsigned int largest; /* of the bursts, up to `most` */
	int64_t largest_ms;   /* when it was reached the last time */
	int64_t asked_ms;
	struct wanted {
		char template[TEMPLATE_NAME_MAX + 1];
	} last[DEMAND_MAX]; /* what was asked for, a ring */
	unsigned int oldest;
};

/* `most` is raised to `least`; both are at most DEMAND_MAX. As if all had been asked for `template`. */
void demand_init(struct demand *d, unsigned int least, unsigned int most, const char *template);

void demand_ask(struct demand *d, const char *template, int64_t now_ms);

/* Nobody waits for a machine any more. */
void demand_pause(struct demand *d);

/* How many may stay, and how many shall be made. */
unsigned int demand_keep(const struct demand *d, int64_t now_ms);
unsigned int demand_make(const struct demand *d, int64_t now_ms);

/* When these change, if nobody asks before; INT64_MAX: never. */
int64_t demand_changes(const struct demand *d, int64_t now_ms);

/* The i-th of the last requests, 0 is the latest; and how many of the last n were for a template: its share of n spares. */
const char *demand_template(const struct demand *d, unsigned int i);
unsigned int demand_share(const struct demand *d, unsigned int n, const char *template);
