/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms for Prometheus: how many values were at most each of some bounds, and the sum of all.
 *
 * A family is a constant table; its histograms are an array with one for each value of the label, zero at first. Who
 * shares them between threads locks them.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum { HISTOGRAM_BOUNDS_MAX = 12 };

struct histogram_family {
	const char *name;
	const char *help;
	const char *label;
	const char *const *values; /* of the label */
	unsigned int n_values;
	unsigned int n_bounds;
	double bounds[HISTOGRAM_BOUNDS_MAX]; /* rising */
};

struct histogram {
	/* By the smallest bound that the value did not exceed; the last: it exceeded all. */
	uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1];
	double sum;
};

void histogram_add(const struct histogram_family *family, struct histogram *h, double value);

/* Appends the whole family in the text format; the errors of buf_append(). */
int histogram_append(const struct histogram_family *family, const struct histogram *all,
	struct buf *text);
