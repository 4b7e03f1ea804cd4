/* SPDX-License-Identifier: Apache-2.0 */
/* Which spare machines are worth having, by what was asked for lately. */
#include "core/demand.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"

enum {
	KEEP_MS = 60000,
	CALM_MS = 2000,
};

static void remember(struct demand *d, const char *template)
{
	struct wanted *w = &d->last[d->oldest];

	(void)snprintf(w->template, sizeof(w->template), "%s", template);
	d->oldest = (d->oldest + 1) % DEMAND_MAX;
}

void demand_init(struct demand *d, unsigned int least, unsigned int most, const char *template)
{
	assert(least <= DEMAND_MAX && most <= DEMAND_MAX);
	*d = (struct demand){.least = least, .most = MAX(least, most)};
	for (unsigned int i = 0; i < DEMAND_MAX; i++)
		remember(d, template);
}

static bool is_over(const struct demand *d, int64_t now_ms)
{
	return d->largest <= d->least || now_ms - d->largest_ms >= KEEP_MS;
}

void demand_ask(struct demand *d, const char *template, int64_t now_ms)
{
	if (is_over(d, now_ms))
		d->largest = 0;
	d->burst++;
	if (d->burst >= d->largest) {
		d->largest = MIN(d->burst, d->most);
		d->largest_ms = now_ms;
	}
	d->asked_ms = now_ms;
	remember(d, template);
}

void demand_pause(struct demand *d)
{
	d->burst = 0;
}

unsigned int demand_keep(const struct demand *d, int64_t now_ms)
{
	return is_over(d, now_ms) ? d->least : d->largest;
}

unsigned int demand_make(const struct demand *d, int64_t now_ms)
{
	return now_ms - d->asked_ms < CALM_MS ? d->least : demand_keep(d, now_ms);
}

int64_t demand_changes(const struct demand *d, int64_t now_ms)
{
	if (is_over(d, now_ms))
		return INT64_MAX;
	if (now_ms - d->asked_ms < CALM_MS)
		return d->asked_ms + CALM_MS;
	return d->largest_ms + KEEP_MS;
}

const char *demand_template(const struct demand *d, unsigned int i)
{
	assert(i < DEMAND_MAX);
	return d->last[(d->oldest + DEMAND_MAX - 1 - i) % DEMAND_MAX].template;
}

unsigned int demand_share(const struct demand *d, unsigned int n, const char *template)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < n; i++)
		found += strcmp(demand_template(d, i), template) == 0;
	return found;
}
