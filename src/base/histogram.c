/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms for Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/). */
#include "base/histogram.h"

#include <inttypes.h>

void histogram_add(const struct histogram_family *family, struct histogram *h, double value)
{
	unsigned int i = 0;

	while (i < family->n_bounds && value > family->bounds[i])
		i++;
	h->counts[i]++;
	h->sum += value;
}

/* Each bucket counts what the ones before it do, too. */
static int append_one(const struct histogram_family *family, const char *value,
	const struct histogram *h, struct buf *text)
{
	uint64_t count = 0;
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < family->n_bounds; i++) {
		count += h->counts[i];
		/* As many digits as 4 GiB have. */
		r = buf_appendf(text, "%s_bucket{%s=\"%s\",le=\"%.10g\"} %" PRIu64 "\n",
			family->name, family->label, value, family->bounds[i], count);
	}
	if (r < 0)
		return r;
	count += h->counts[family->n_bounds];
	return buf_appendf(text,
		"%s_bucket{%s=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
		"%s_sum{%s=\"%s\"} %.15g\n"
		"%s_count{%s=\"%s\"} %" PRIu64 "\n",
		family->name, family->label, value, count, family->name, family->label, value,
		h->sum, family->name, family->label, value, count);
}

int histogram_append(const struct histogram_family *family, const struct histogram *all,
	struct buf *text)
{
	int r = buf_appendf(text, "# HELP %s %s\n# TYPE %s histogram\n", family->name, family->help,
		family->name);

	for (unsigned int i = 0; r == 0 && i < family->n_values; i++)
		r = append_one(family, family->values[i], &all[i], text);
	return r;
}
