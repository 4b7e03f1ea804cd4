/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, what they share, and those that are too small for a file. */
#include "ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "exec.h"
#include "file_io.h"
#include "files.h"
#include "identity.h"
#include "ports.h"
#include "process.h"
#include "session.h"
#include "tunnel.h"
#include "watch.h"

const char *request_text(const json_t *request, const char *key)
{
	return json_string_value(json_object_get(request, key));
}

const char *request_path(struct stream *s, const json_t *request, const char *key)
{
	const char *path = request_text(request, key);

	if (path && path[0] == '/' && strlen(path) <= LIMIT_PATH_BYTES)
		return path;
	stream_failf(s, -EINVAL, "\"%s\" must be an absolute path of at most %d bytes", key,
		LIMIT_PATH_BYTES);
	return NULL;
}

char *agent_path(const struct agent *agent, const char *path)
{
	char *joined;

	if (asprintf(&joined, "%s%s", agent->config.root, path) < 0)
		abort(); /* out of memory */
	return joined;
}

/* --- warm ---------------------------------------------------------------------------------- */

struct warmer {
	struct runtime_waiter waiter;
	struct agent *agent;
	struct stream *stream;
};

static void on_warm(struct runtime_waiter *w, const struct err *err)
{
	struct warmer *warmer = container_of(w, struct warmer, waiter);

	if (err)
		stream_fail(warmer->stream, err);
	else
		stream_close(warmer->stream, json_incref(warmer->agent->runtime.info));
	free(warmer);
}

static void warm_on_gone(struct stream *s)
{
	struct warmer *warmer = s->owner;

	runtime_waiter_cancel(&warmer->waiter);
	free(warmer);
}

static const struct stream_ops warm_ops = {
	.on_gone = warm_on_gone,
};

static void op_warm(struct agent *agent, struct stream *s, const json_t *request)
{
	struct warmer *warmer = xnew(struct warmer);

	(void)request;
	warmer->agent = agent;
	warmer->stream = s;
	warmer->waiter.on_ready = on_warm;
	list_init(&warmer->waiter.node);
	s->owner = warmer;
	s->ops = &warm_ops;
	runtime_want(&agent->runtime, &warmer->waiter);
}

/* --- stats --------------------------------------------------------------------------------- */

static void op_stats(struct agent *agent, struct stream *s, const json_t *request)
{
	(void)agent;
	(void)request;
	stream_close(s,
		json_pack("{sI sI sI}", "mem_total", (json_int_t)meminfo_bytes("MemTotal"),
			"mem_available", (json_int_t)meminfo_bytes("MemAvailable"), "uptime_ms",
			(json_int_t)clock_mono_ms()));
}

/* --- logs ---------------------------------------------------------------------------------- */

static void op_logs(struct agent *agent, struct stream *s, const json_t *request)
{
	output_log_attach(&agent->log, s, json_is_true(json_object_get(request, "follow")));
}

/* --- the table ----------------------------------------------------------------------------- */

static const struct {
	const char *name;
	op_fn *open;
} table[] = {
	{"connect", tunnel_open},
	{"exec", exec_open},
	{"list", files_list},
	{"logs", op_logs},
	{"mkdir", files_mkdir},
	{"move", files_move},
	{"ports", ports_list},
	{"process_get", process_get},
	{"process_input", process_input},
	{"process_list", process_list},
	{"process_output", process_output},
	{"process_signal", process_signal},
	{"process_start", process_start},
	{"read", files_read},
	{"remove", files_remove},
	{"resume", identity_resume},
	{"session_create", session_create},
	{"session_delete", session_delete},
	{"session_input", session_input},
	{"session_interrupt", session_interrupt},
	{"session_list", session_list},
	{"session_restart", session_restart},
	{"session_run", session_run},
	{"stat", files_stat},
	{"stats", op_stats},
	{"warm", op_warm},
	{"watch", watch_open},
	{"write", files_write},
};

void ops_open(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *name = request_text(request, "op");
	char shown[64] = "(none)";

	for (size_t i = 0; name && i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) == 0) {
			table[i].open(agent, s, request);
			return;
		}
	}
	if (name)
		str_printable(shown, sizeof(shown), name, strlen(name));
	stream_failf(s, -EOPNOTSUPP, "unknown operation: %s", shown);
}
