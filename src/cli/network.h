/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say what a sandbox may reach, for the commands that have them. */
#pragma once

#include <jansson.h>

#include "cli/opts.h"

struct network_options {
	const char *egress, *allow, *deny, *rate; /* as given, or NULL */
};

#define OPTS_NETWORK(o) \
	{.name = "network", \
		.arg = "MODE", \
		.text = &(o)->egress, \
		.help = "none: no way out; internet: all that is public"}, \
		{.name = "allow", \
			.arg = "RULES", \
			.text = &(o)->allow, \
			.help = "reach only these: api.example.com,203.0.113.0/24:443"}, \
		{.name = "deny", \
			.arg = "RULES", \
			.text = &(o)->deny, \
			.help = "reach all but these"}, \
	{ \
		.name = "rate", .arg = "SIZE", .text = &(o)->rate, \
		.help = "at most so many bytes a second: 1MiB; 0: no limit" \
	}

/* The API's `network`: *ret is NULL where no option was given. */
int network_body(const struct network_options *o, json_t **ret, struct err *err);
