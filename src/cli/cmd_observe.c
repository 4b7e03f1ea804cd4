/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox ps|logs|events`: what runs in a sandbox, what it wrote, what happened to it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/parse.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/opts.h"
#include "cli/sandbox.h"
#include "cli/sse.h"
#include "cli/table.h"
#include "cli/term.h"
#include "cli/text.h"

/* ---- ps ---- */

int cmd_sandbox_ps(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"ID", "id", table_any},
		{"PID", "pid", table_any},
		{"STATUS", "status", table_any},
		{"EXIT", "exit_code", table_any},
		{"AGE", "started_at", table_age},
		{"OUTPUT", "output_bytes", table_size},
		{"COMMAND", "cmd", table_any},
	};
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "sandbox ps ID [--json]",
		.about =
			"Lists the commands in the background of a sandbox, those that have ended,\n"
			"too: what `sandbox exec --detach` has started.\n",
		.examples = "  pandastack sandbox ps 3f2a\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/processes", &client, &path, err);
	return r < 0 ? r : list_print(client, path, columns, ARRAY_SIZE(columns), json, err);
}

/* ---- streams ---- */

/* Shows one event of a stream; its data is an object. */
typedef int show_fn(const char *name, const json_t *data, struct err *err);

struct reader {
	struct sse sse;
	show_fn *show;
	struct err *err; /* borrowed while read_part() runs */
};

static int on_event(const struct sse_event *event, void *user)
{
	const struct reader *reader = user;
	json_t *data = json_loadb(event->data, event->len, JSON_ALLOW_NUL, NULL);
	const char *error = json_string_value(json_object_get(data, "error"));
	int r;

	if (!json_is_object(data)) {
		r = err_set(reader->err, ERR_INTERNAL, -EPROTO, "an event came that is not JSON");
	} else if (strcmp(event->name, "error") == 0) {
		_cleanup_free_ char *clean = text_clean(error ? error : "the stream failed");
		const char *code = json_string_value(json_object_get(data, "code"));

		r = err_set(reader->err, err_from_code(code ? code : ""), -EIO, "%s", clean);
	} else {
		r = reader->show(event->name, data, reader->err);
	}
	json_decref(data);
	return r;
}

static int read_part(const char *data, size_t len, void *user, struct err *err)
{
	struct reader *reader = user;
	int r;

	reader->err = err;
	r = sse_feed(&reader->sse, data, len, on_event, reader);
	if (r == -EMSGSIZE || r == -ENOMEM)
		return err_set_errno(err, r, "an event from the daemon is too large");
	return r;
}

static int follow(struct client *client, const char *path, show_fn *show, struct err *err)
{
	struct reader reader = {.sse = sse_init(LIMIT_LISTING_BYTES), .show = show};
	const struct client_request request = {.method = "GET",
		.path = path,
		.accept = "text/event-stream",
		.on_data = read_part,
		.data_user = &reader};
	int r = client_send(client, &request, NULL, err);

	sse_done(&reader.sse);
	return r;
}

/* Adds "?name=value", or "&name=value" behind another. */
static void add_query(char **path, const char *name, const char *value)
{
	_cleanup_free_ char *before = *path, *escaped = client_escape(value);

	*path = text_format("%s%c%s=%s", before, strchr(before, '?') ? '&' : '?', name, escaped);
}

static int add_tail(char **path, const char *tail, struct err *err)
{
	int64_t n;

	if (!tail)
		return 0;
	if (parse_i64(tail, 0, INT32_MAX, &n) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "--tail takes a number, not '%s'", tail);
	add_query(path, "tail", tail);
	return 0;
}

/* ---- logs ---- */

static int show_line(const char *name, const json_t *data, struct err *err)
{
	const json_t *line = json_object_get(data, "line");

	return term_write(STDOUT_FILENO, json_string_value(line), json_string_length(line), err);
}

static int show_text(const char *data, size_t len, void *user, struct err *err)
{
	return term_write(STDOUT_FILENO, data, len, err);
}

int cmd_sandbox_logs(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	const char *tail = NULL, *stream = NULL;
	bool follows = false;
	struct client_request request = {.method = "GET", .on_data = show_text};
	const struct opt opts[] = {
		{'f', "follow", NULL, "go on until Ctrl-C", .flag = &follows},
		{'n', "tail", "N", "only the last N lines of what there is", .text = &tail},
		{0, "stream", "STREAM", "only stdout or stderr; or the console", .text = &stream},
	};
	const struct opts_spec spec = {
		.usage = "sandbox logs ID [options]",
		.about = "Shows what commands in a sandbox have written, those in the background,\n"
			 "too; or what its machine's console has said.\n",
		.examples = "  pandastack sandbox logs 3f2a -f\n"
			    "  pandastack sandbox logs 3f2a --stream console --tail 20\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/logs", &client, &path, err);
	if (r == 0)
		r = add_tail(&path, tail, err);
	if (r < 0)
		return r;
	if (stream)
		add_query(&path, "stream", stream);
	if (follows) {
		add_query(&path, "follow", "1");
		return follow(client, path, show_line, err);
	}
	request.path = path;
	return client_send(client, &request, NULL, err);
}

/* ---- events ---- */

static int print_event(const json_t *event)
{
	_cleanup_free_ char *time = table_any(json_object_get(event, "time"));
	_cleanup_free_ char *type = table_any(json_object_get(event, "type"));
	_cleanup_free_ char *payload = table_any(json_object_get(event, "payload"));

	return printf("%s  %-20s  %s\n", time, type, payload);
}

static int show_event(const char *name, const json_t *event, struct err *err)
{
	if (print_event(event) < 0 || fflush(stdout) != 0)
		return err_set_errno(err, -errno, "can't write");
	return 0;
}

static int show_event_json(const char *name, const json_t *event, struct err *err)
{
	int r = client_print_json(event, JSON_COMPACT, err);

	if (r == 0 && fflush(stdout) != 0)
		return err_set_errno(err, -errno, "can't write");
	return r;
}

static int print_events(const json_t *answer, bool json, struct err *err)
{
	json_t *event;
	size_t i;

	if (json)
		return client_print_json(json_object_get(answer, "events"), JSON_INDENT(2), err);
	json_array_foreach(json_object_get(answer, "events"), i, event)
		(void)print_event(event); /* a full disk is told when the program ends */
	return 0;
}

int cmd_sandbox_events(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	const char *tail = NULL;
	bool follows = false, json = false;
	json_t *answer = NULL;
	const struct opt opts[] = {
		{'f', "follow", NULL, "go on until the sandbox is deleted", .flag = &follows},
		{'n', "tail", "N", "only the last N of those that there are (50)", .text = &tail},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "sandbox events ID [options]",
		.about = "Shows what happened to a sandbox, oldest first.\n",
		.examples = "  pandastack sandbox events 3f2a\n"
			    "  pandastack sandbox events 3f2a --follow --tail 0 --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/events", &client, &path, err);
	if (r == 0)
		r = add_tail(&path, tail, err);
	if (r < 0)
		return r;
	if (follows) {
		add_query(&path, "follow", "1");
		return follow(client, path, json ? show_event_json : show_event, err);
	}
	r = client_json(client, "GET", path, NULL, &answer, err);
	if (r == 0)
		r = print_events(answer, json, err);
	json_decref(answer);
	return r;
}
