/* SPDX-License-Identifier: Apache-2.0 */
/* What must differ between two machines restored from one snapshot: `resume`. */
#pragma once

#include <jansson.h>

struct agent;
struct stream;

/* What `resume` writes to, kept open (see identity.c); -1: is not there. */
struct identity_files {
	int hostname, hosts, machine_id; /* below /etc */
	int boot_id;
	int random; /* /dev/urandom */
};

/* Opens them: those of the machine, as PID 1; else names below the agent's root alone. */
void identity_init(struct agent *agent);
void identity_done(struct agent *agent);

void identity_resume(struct agent *agent, struct stream *s, const json_t *request);
