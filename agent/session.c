/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: named kernels with a queue of cells each. */
/*
 * Theory of operation
 *
 * A session outlives its kernel. Its cells (struct run) wait in the order in which they were opened;
 * the first one runs when its code is complete and the kernel is ready, and a kernel is
 * started when there is none:
 *
 *	no kernel ──first cell──▶ starting ──on_ready──▶ ready ◀──on_done── running
 *	    ▲                        │ failed: cells get the error       │
 *	    └────────────────────────┴───────────on_dead─────────────────┘
 *
 * Output between cells is the session's, so that the last words of a kernel that dies there reach the next cell, which
 * another kernel runs. A restart, and a start that fails, end with it.
 *
 * Ending a cell early (its timeout, an interrupt, a cancel, a host that is gone) is one path: SIGINT,
 * GRACE_MS for the kernel to say 'd', then SIGKILL for the kernel. What the cell started is killed SWEEP_MS
 * after the SIGINT, or at the cell's end: a shell whose command dies before it has the signal would begin the next one. What the answer says about the
 * state follows from what happened, not from what was wanted: 'd' means that the kernel lives and
 * its variables with it, on_dead means `state_lost`.
 */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "changes.h"
#include "env.h"
#include "kernel.h"

enum {
	GRACE_MS = 2000,
	SWEEP_MS = 50, /* of the grace: until the cell's children are killed */
	NAME_BYTES = 128,
	LANGUAGE_BYTES = 64,
};

enum ending {
	BY_ITSELF,
	BY_TIMEOUT,
	BY_INTERRUPT,
};

struct session {
	struct list node;
	struct agent *agent;
	char name[NAME_BYTES + 1];
	char language[LANGUAGE_BYTES + 1];
	char *cwd;             /* owned */
	json_t *env;           /* owned; of the session, NULL: none */
	struct kernel *kernel; /* owned; NULL: none */
	bool created;          /* a first kernel was ready */
	bool ready;            /* the kernel takes cells */
	bool lost;             /* a kernel died; the next cell's result says `kernel_restarted` */
	uint64_t cells;
	struct list runs;
	struct kernel_kept kept[KERNEL_PIPES];
	struct run *current; /* first of `runs`, once the kernel has it */
	struct changes changes;
	struct stream *starter; /* waits for the PID; NULL: nobody */
};

struct run {
	struct list node;
	struct session *session;
	struct stream *stream; /* NULL once the link dropped it */
	struct buf code;
	bool complete; /* all of the code is here */
	bool ansi;
	bool allow_stdin;
	bool detach; /* goes on when nobody listens any more */
	json_t *env; /* owned; NULL: none */
	int64_t timeout_ms;
	int64_t started_ms;
	struct timer timer; /* the timeout, then the sweep, then the grace */
	enum ending ending;
	bool swept;
	bool killed;    /* by us, after the grace */
	bool restarted; /* first cell of a kernel that replaces a lost one */
};

static void schedule(struct session *session);

/* --- cells --------------------------------------------------------------------------------- */

static void run_free(struct run *run)
{
	if (run->session->current == run)
		run->session->current = NULL;
	list_remove(&run->node);
	timer_stop(&run->timer);
	buf_done(&run->code);
	json_decref(run->env);
	free(run);
}

/* Answers with `result` (whose reference it takes) and the members that all results have. */
static void run_finish(struct run *run, const char *status, json_t *result)
{
	int64_t took = run->started_ms ? clock_mono_ms() - run->started_ms : 0;

	(void)json_object_set_new(result, "status", json_string(status));
	(void)json_object_set_new(result, "duration_ms", json_integer(took));
	if (!json_object_get(result, "exit_code"))
		(void)json_object_set_new(result, "exit_code",
			json_integer(strcmp(status, "ok") != 0));
	if (run->started_ms)
		changes_report(&run->session->changes, WORKSPACE, result);
	if (run->restarted)
		(void)json_object_set_new(result, "kernel_restarted", json_true());
	if (run->stream)
		stream_close(run->stream, result);
	else
		json_decref(result);
	run_free(run);
}

static void run_fail(struct run *run, const struct err *err)
{
	if (run->stream)
		stream_fail(run->stream, err);
	run_free(run);
}

static void run_died(struct run *run, const char *status, const char *reason)
{
	run_finish(run, status, json_pack("{ss sb}", "reason", reason, "state_lost", 1));
}

static const char *ending_status(enum ending ending)
{
	return ending == BY_TIMEOUT ? "timeout" : "interrupted";
}

static void run_end_early(struct run *run, enum ending ending)
{
	struct session *session = run->session;

	if (session->current != run) {
		run_finish(run, ending_status(ending), json_object());
		schedule(session); /* it may have stood in the way */
		return;
	}
	if (run->ending != BY_ITSELF)
		return;
	run->ending = ending;
	timer_start(&run->timer, &session->agent->loop, SWEEP_MS);
	kernel_interrupt(session->kernel);
}

/* Kills what an interrupted cell has started, once. */
static void run_sweep(struct run *run)
{
	if (run->ending == BY_ITSELF || run->swept)
		return;
	run->swept = true;
	kernel_sweep(run->session->kernel);
}

static void on_run_timer(struct timer *timer)
{
	struct run *run = container_of(timer, struct run, timer);

	if (run->ending == BY_ITSELF) {
		run_end_early(run, BY_TIMEOUT);
	} else if (!run->swept) {
		run_sweep(run);
		timer_start(&run->timer, &run->session->agent->loop, GRACE_MS - SWEEP_MS);
	} else {
		run->killed = true;
		kernel_kill(run->session->kernel);
	}
}

static json_t *run_request(const struct run *run)
{
	json_t *request = json_pack("{sb sb}", "ansi", run->ansi, "allow_stdin", run->allow_stdin);

	(void)json_object_set_new(request, "code",
		json_stringn(run->code.data ? run->code.data : "", run->code.len));
	if (run->env)
		(void)json_object_set(request, "env", run->env);
	return request;
}

static void run_start(struct run *run)
{
	struct session *session = run->session;
	json_t *request = run_request(run);
	struct err err;
	int r;

	session->current = run;
	session->cells++;
	run->restarted = session->lost;
	session->lost = false;
	run->started_ms = clock_mono_ms();
	changes_watch(&session->changes, WORKSPACE);
	if (run->timeout_ms > 0)
		timer_start(&run->timer, &session->agent->loop, run->timeout_ms);
	r = kernel_run(session->kernel, run->stream, request);
	json_decref(request);
	buf_done(&run->code);
	if (r < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, r, "the code is too long");
		run_fail(run, &err);
		schedule(session);
	}
}

static void run_on_data(struct stream *s, const uint8_t *data, size_t len)
{
	struct run *run = s->owner;
	struct session *session = run->session;
	struct err err;

	if (!run->complete && buf_append(&run->code, data, len) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, -EINVAL, "the code is too long");
		run_fail(run, &err);
		schedule(session);
		return;
	}
	stream_consumed(s, len);
}

static void run_on_end(struct stream *s)
{
	struct run *run = s->owner;
	struct session *session = run->session;
	struct err err;

	if (run->code.len && !str_is_utf8(run->code.data, run->code.len)) {
		(void)err_set(&err, ERR_INVALID, -EINVAL, "the code is not UTF-8");
		run_fail(run, &err);
	} else {
		run->complete = true;
	}
	schedule(session);
}

static void run_on_event(struct stream *s, const json_t *event)
{
	if (json_is_true(json_object_get(event, "interrupt")))
		run_end_early(s->owner, BY_INTERRUPT);
}

static void run_on_cancel(struct stream *s)
{
	struct run *run = s->owner;
	struct session *session = run->session;
	bool current = session->current == run;

	if (run->detach && run->complete) {
		run->stream = NULL;
		stream_close(s, json_pack("{ss}", "status", "detached"));
		if (current)
			kernel_mute(session->kernel);
		return;
	}
	run_end_early(run, BY_INTERRUPT);
	if (current)
		kernel_mute(session->kernel); /* the host does not read it any more */
}

static void run_on_room(struct stream *s)
{
	const struct run *run = s->owner;

	kernel_on_room(run->session->kernel);
}

static void run_on_gone(struct stream *s)
{
	struct run *run = s->owner;
	struct session *session = run->session;
	bool current = session->current == run;

	run->stream = NULL;
	if (!run->detach || !run->complete)
		run_end_early(run, BY_INTERRUPT);
	if (current)
		kernel_mute(session->kernel);
}

static const struct stream_ops run_ops = {
	.on_data = run_on_data,
	.on_end = run_on_end,
	.on_event = run_on_event,
	.on_cancel = run_on_cancel,
	.on_room = run_on_room,
	.on_gone = run_on_gone,
};

/* --- the kernel ---------------------------------------------------------------------------- */

static void session_free(struct session *session)
{
	list_remove(&session->node);
	session->kernel = kernel_free(session->kernel);
	kernel_kept_done(session->kept);
	changes_done(&session->changes);
	json_decref(session->env);
	free(session->cwd);
	free(session);
}

/* Answers all cells; the kernel is no more. */
static void abandon_runs(struct session *session, const char *reason)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &session->runs)
		run_died(container_of(it, struct run, node), "died", reason);
}

static void on_ready(struct kernel *k, const struct err *err)
{
	struct session *session = k->owner;
	struct stream *starter = steal_ptr(&session->starter);
	struct list *it, *tmp;

	if (!err) {
		session->created = true;
		session->ready = true;
		if (starter)
			stream_close(starter, json_pack("{si}", "pid", (int)kernel_pid(k)));
		schedule(session);
		return;
	}
	session->kernel = kernel_free(k);
	kernel_kept_clear(session->kept);
	if (starter)
		stream_fail(starter, err);
	list_for_each(it, tmp, &session->runs)
		run_fail(container_of(it, struct run, node), err);
	if (starter && !session->created)
		session_free(session); /* it never came to be */
}

static void on_done(struct kernel *k, const json_t *result)
{
	struct session *session = k->owner;
	struct run *run = session->current;
	const char *status = json_string_value(json_object_get(result, "status"));
	const json_t *count = json_object_get(result, "execution_count");
	json_int_t code = json_integer_value(json_object_get(result, "exit_code"));
	json_t *answer = json_object();

	run_sweep(run);
	status = status && strcmp(status, "ok") == 0 ? "ok" : "error";
	if (json_is_integer(count))
		(void)json_object_set_new(answer, "execution_count",
			json_integer(json_integer_value(count)));
	if (code > 0 && code <= UINT8_MAX)
		(void)json_object_set_new(answer, "exit_code", json_integer(code));
	/* A cell that its timeout ended may have caught the interrupt: it is over time all the same. */
	if (run->ending == BY_TIMEOUT || (run->ending == BY_INTERRUPT && strcmp(status, "ok") != 0))
		status = ending_status(run->ending);
	run_finish(run, status, answer);
	schedule(session);
}

static void finish_dead(struct run *run, int status, bool out_of_memory)
{
	char reason[96];
	json_t *answer = json_pack("{sb}", "state_lost", 1);
	const char *verdict = "died";

	if (run->killed) {
		verdict = ending_status(run->ending);
		(void)snprintf(reason, sizeof(reason),
			"the cell did not stop when interrupted; the kernel was killed");
	} else if (out_of_memory) {
		verdict = "oom";
		(void)snprintf(reason, sizeof(reason), "the sandbox ran out of memory");
	} else if (WIFSIGNALED(status)) {
		(void)snprintf(reason, sizeof(reason), "the kernel was killed by signal %d",
			WTERMSIG(status));
	} else {
		(void)snprintf(reason, sizeof(reason), "the kernel exited with code %d",
			WEXITSTATUS(status));
		if (WEXITSTATUS(status))
			(void)json_object_set_new(answer, "exit_code",
				json_integer(WEXITSTATUS(status)));
	}
	if (WIFSIGNALED(status))
		(void)json_object_set_new(answer, "signal", json_integer(WTERMSIG(status)));
	(void)json_object_set_new(answer, "reason", json_string(reason));
	run_finish(run, verdict, answer);
}

static void on_dead(struct kernel *k, int status, bool out_of_memory)
{
	struct session *session = k->owner;

	session->kernel = kernel_free(k);
	session->ready = false;
	session->lost = true;
	if (session->current)
		finish_dead(session->current, status, out_of_memory);
	schedule(session);
}

static const struct kernel_ops kernel_callbacks = {
	.on_ready = on_ready,
	.on_done = on_done,
	.on_dead = on_dead,
};

static void start_kernel(struct session *session)
{
	_cleanup_free_ char *environment = agent_path(session->agent, "/etc/environment");
	_cleanup_env_ struct env env = {0};

	env_build(&env, environment, "/root", "root", session->agent->env, session->env);
	session->ready = false;
	session->kernel = kernel_new(session->agent, session->language, session->cwd,
		env_to_json(&env), session->kept, &kernel_callbacks, session);
	kernel_start(session->kernel);
}

/* Lets the first cell run if it can. The session may be gone afterwards. */
static void schedule(struct session *session)
{
	struct run *first;

	if (session->current || list_empty(&session->runs))
		return;
	first = container_of(session->runs.next, struct run, node);
	if (!first->complete)
		return;
	if (!session->kernel)
		start_kernel(session);
	else if (session->ready)
		run_start(first);
}

/* --- requests ------------------------------------------------------------------------------ */

static struct session *find(struct agent *agent, const char *name)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->sessions) {
		struct session *session = container_of(it, struct session, node);

		if (strcmp(session->name, name) == 0)
			return session;
	}
	return NULL;
}

/* The session that a request names; NULL, and the stream closed, where there is none. */
static struct session *request_session(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *name = request_text(request, "session");
	struct session *session = name ? find(agent, name) : NULL;

	if (!session)
		stream_failf(s, -ESRCH, "session not found: %s", name ? name : "(none given)");
	return session;
}

static void starter_on_gone(struct stream *s)
{
	struct session *session = s->owner;

	session->starter = NULL;
}

static const struct stream_ops starter_ops = {
	.on_gone = starter_on_gone,
};

static void start_for(struct session *session, struct stream *s)
{
	s->owner = session;
	s->ops = &starter_ops;
	session->starter = s;
	start_kernel(session);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *default_cwd(void)
{
	return is_dir(WORKSPACE) ? WORKSPACE : access("/root", X_OK) == 0 ? "/root" : "/";
}

static int check_create(struct agent *agent, const json_t *request, struct err *err)
{
	const char *name = request_text(request, "session");
	const char *language = request_text(request, "language");
	const char *cwd = request_text(request, "cwd");
	const char *wrong = env_check_json(json_object_get(request, "env"));
	size_t count = 0;

	if (!name || !*name || strlen(name) > NAME_BYTES)
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"session\" must be a name of 1 to %d bytes", NAME_BYTES);
	if (wrong)
		return err_set(err, ERR_INVALID, -EINVAL, "%s", wrong);
	if (language && (!*language || strlen(language) > LANGUAGE_BYTES))
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"language\" must be a name of 1 to %d bytes", LANGUAGE_BYTES);
	if (cwd && !is_dir(cwd))
		return err_set(err, ERR_INVALID, -ENOENT, "working directory %s: not a directory",
			cwd);
	if (find(agent, name))
		return err_set(err, ERR_CONFLICT, -EEXIST, "the session exists: %s", name);
	for (const struct list *it = agent->sessions.next; it != &agent->sessions; it = it->next)
		count++;
	if (count >= LIMIT_SESSIONS)
		return err_set(err, ERR_TOO_MANY, -EAGAIN,
			"a sandbox has at most %d sessions; delete one first", LIMIT_SESSIONS);
	return 0;
}

void session_create(struct agent *agent, struct stream *s, const json_t *request)
{
	const char *cwd = request_text(request, "cwd");
	const char *language = request_text(request, "language");
	struct session *session;
	struct err err;

	if (check_create(agent, request, &err) < 0) {
		stream_fail(s, &err);
		return;
	}
	session = xnew(struct session);
	session->agent = agent;
	(void)snprintf(session->name, sizeof(session->name), "%s",
		request_text(request, "session"));
	(void)snprintf(session->language, sizeof(session->language), "%s",
		language ? language : "python");
	session->cwd = xstrdup(cwd ? cwd : default_cwd());
	session->env = json_deep_copy(json_object_get(request, "env"));
	session->changes = changes_init();
	kernel_kept_init(session->kept);
	list_init(&session->runs);
	list_append(&agent->sessions, &session->node);
	start_for(session, s);
}

void session_run(struct agent *agent, struct stream *s, const json_t *request)
{
	json_t *env = json_object_get(request, "env");
	const char *wrong = env_check_json(env);
	struct session *session = request_session(agent, s, request);
	struct run *run;

	if (!session)
		return;
	if (wrong) {
		stream_failf(s, -EINVAL, "%s", wrong);
		return;
	}
	run = xnew(struct run);
	run->session = session;
	run->stream = s;
	run->code = buf_init(LIMIT_CODE_BYTES);
	run->ansi = json_is_true(json_object_get(request, "ansi"));
	run->allow_stdin = json_is_true(json_object_get(request, "allow_stdin"));
	run->detach = json_is_true(json_object_get(request, "detach"));
	run->env = json_deep_copy(env);
	run->timeout_ms = json_integer_value(json_object_get(request, "timeout_ms"));
	timer_init(&run->timer, on_run_timer);
	list_append(&session->runs, &run->node);
	s->owner = run;
	s->ops = &run_ops;
}

void session_interrupt(struct agent *agent, struct stream *s, const json_t *request)
{
	struct session *session = request_session(agent, s, request);

	if (!session)
		return;
	stream_close(s, json_pack("{sb}", "running", session->current ? 1 : 0));
	if (session->current)
		run_end_early(session->current, BY_INTERRUPT);
}

void session_input(struct agent *agent, struct stream *s, const json_t *request)
{
	struct session *session = request_session(agent, s, request);
	const char *value = request_text(request, "value");
	int r;

	if (!session)
		return;
	if (!value) {
		stream_failf(s, -EINVAL, "\"value\" must be a string");
		return;
	}
	r = session->current ? kernel_input(session->kernel, value) : -EBUSY;
	if (r == -EBUSY)
		stream_failf(s, r, "no cell of this session waits for input");
	else if (r < 0)
		stream_failf(s, r, "the input is too long");
	else
		stream_close(s, json_object());
}

void session_restart(struct agent *agent, struct stream *s, const json_t *request)
{
	struct session *session = request_session(agent, s, request);

	if (!session)
		return;
	if (session->starter) {
		stream_failf(s, -EBUSY, "the session is starting");
		return;
	}
	session->kernel = kernel_free(session->kernel);
	kernel_kept_clear(session->kept);
	abandon_runs(session, "the session was restarted");
	session->lost = false;
	start_for(session, s);
}

void session_delete(struct agent *agent, struct stream *s, const json_t *request)
{
	struct session *session = request_session(agent, s, request);

	if (!session)
		return;
	session->kernel = kernel_free(session->kernel);
	abandon_runs(session, "the session was deleted");
	if (session->starter)
		stream_failf(session->starter, -ENOENT, "the session was deleted");
	session_free(session);
	stream_close(s, json_object());
}

void session_list(struct agent *agent, struct stream *s, const json_t *request)
{
	json_t *list = json_array();
	struct list *it, *tmp;

	(void)request;
	list_for_each(it, tmp, &agent->sessions) {
		const struct session *session = container_of(it, struct session, node);

		(void)json_array_append_new(list,
			json_pack("{ss ss sI sb}", "session", session->name, "language",
				session->language, "cells", (json_int_t)session->cells, "running",
				session->current ? 1 : 0));
	}
	stream_close(s, json_pack("{so}", "sessions", list));
}

void session_reseed_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->sessions) {
		struct session *session = container_of(it, struct session, node);

		/* One that is just starting may have drawn its numbers already. */
		if (session->kernel)
			kernel_reseed(session->kernel);
	}
}

void session_free_all(struct agent *agent)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &agent->sessions) {
		struct session *session = container_of(it, struct session, node);

		session->kernel = kernel_free(session->kernel);
		abandon_runs(session, "the agent ends");
		session_free(session);
	}
}
