/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a whole: what its operations share. One object, one thread, made by main.c. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cgroup.h"
#include "identity.h"
#include "link.h"
#include "loop.h"
#include "memory_guard.h"
#include "network.h"
#include "output_log.h"
#include "reap.h"
#include "runtime.h"

struct agent_config {
	bool init;           /* PID 1 of a guest; false: an ordinary process, in tests */
	const char *root;    /* prefix of the agent's own files: identity, /etc/environment */
	const char *cgroup;  /* directory of our own in a cgroup2 file system; NULL: none */
	const char *python;  /* interpreter of the kernel runtime */
	const char *runtime; /* directory of the runtime's package */
};

struct agent {
	struct agent_config config;
	struct loop loop;
	struct link link;
	struct reaper reaper;
	struct cgroup_tree cgroups;
	struct memory_guard memory_guard;
	struct runtime runtime;
	struct identity_files files;
	struct list commands;  /* running, also those without a stream */
	struct list processes; /* in the background, also those that have ended */
	uint32_t last_process;
	struct output_log log; /* what all of these have written */
	struct list jobs;
	struct list sessions;
	size_t tunnels;           /* open */
	json_t *env;              /* the sandbox's, from `resume`; NULL until then */
	json_t *packages;         /* settings of package managers, likewise */
	struct network_diag diag; /* of a machine */
	bool network_up;
	bool stop;
};

/* An operation: reads its request (borrowed), then owns the stream. */
typedef void op_fn(struct agent *agent, struct stream *s, const json_t *request);

/* Where code works, unless it is told to be elsewhere. */
#define WORKSPACE "/workspace"

/* Text member of a request; NULL where it is missing or no text. */
const char *request_text(const json_t *request, const char *key);

/* A path of a request: NULL, and the stream closed with an error, where it is missing, relative, or
 * too long. */
const char *request_path(struct stream *s, const json_t *request, const char *key);

/* `path` below the agent's root; to be freed. */
char *agent_path(const struct agent *agent, const char *path);
