/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox exec`: a command in a sandbox, its output as it comes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "cli/text.h"

/* One word is a line for the shell; several reach the program as they are. */
static int make_command(int argc, char **argv, struct buf *cmd, struct err *err)
{
	int r = 0;

	if (argc == 1)
		r = buf_append(cmd, argv[0], strlen(argv[0]));
	for (int i = 0; argc > 1 && i < argc && r == 0; i++) {
		_cleanup_free_ char *word = text_shell_quote(argv[i]);

		r = buf_appendf(cmd, "%s%s", i ? " " : "", word);
	}
	if (r < 0)
		return err_set_errno(err, r, "the command is too long");
	return 0;
}

static int exec_buffered(struct client *client, const struct client_request *request,
	struct err *err)
{
	json_t *answer = NULL;
	int r = client_send(client, request, &answer, err);

	if (r < 0)
		return r;
	r = client_print_json(answer, JSON_INDENT(2), err);
	if (r == 0)
		r = output_status(answer);
	json_decref(answer);
	return r;
}

static int exec_streamed(struct client *client, struct client_request *request, struct err *err)
{
	_cleanup_output_ struct output out = output_init(NULL);
	int r;

	request->accept = "text/event-stream";
	request->on_data = output_feed;
	request->data_user = &out;
	r = client_send(client, request, NULL, err);
	return r < 0 ? r : output_end(&out, err);
}

/* The command goes on: its id in the sandbox is all that there is to show. */
static int exec_detached(struct client *client, const struct client_request *request, bool json,
	struct err *err)
{
	json_t *answer = NULL;
	int r = client_send(client, request, &answer, err);

	if (r == 0 && json)
		r = client_print_json(answer, JSON_INDENT(2), err);
	else if (r == 0)
		(void)printf("%lld\n",
			(long long)json_integer_value(json_object_get(answer, "id")));
	json_decref(answer);
	return r;
}

static int exec(const char *sandbox, json_t *body, bool json, struct err *err)
{
	bool detached = json_is_true(json_object_get(body, "background"));
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	struct client_request request = {.method = "POST", .body = body};
	const char *suffix = json || detached ? "/exec" : "/exec/stream";
	int r = sandbox_reach(sandbox, suffix, &client, &path, err);

	if (r < 0)
		return r;
	request.path = path;
	if (detached)
		return exec_detached(client, &request, json, err);
	return json ? exec_buffered(client, &request, err) : exec_streamed(client, &request, err);
}

int cmd_sandbox_exec(int argc, char **argv, struct err *err)
{
	_cleanup_buf_ struct buf cmd = buf_init(LIMIT_COMMAND_BYTES);
	const char *cwd = NULL;
	int64_t timeout_ms = 0;
	json_t *env = NULL, *body;
	bool detach = false, json = false, tty = false;
	const struct opt opts[] = {
		{'t', "tty", NULL, "run it on this terminal, with what is typed", .flag = &tty},
		{'d', "detach", NULL, "leave it in the background, and print its number",
			.flag = &detach},
		{0, "cwd", "DIR", "run it in this folder", .text = &cwd},
		{'e', "env", "NAME=VALUE", "add to its environment; may be repeated",
			.pairs = &env},
		{0, "timeout", "TIME", "kill it after this time (10m; never with --detach)",
			.span_ms = &timeout_ms},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "sandbox exec ID [options] -- COMMAND [ARGUMENT]...",
		.about =
			"Runs a command in a sandbox, and shows its output as it comes. A\n"
			"command of one word is a line for the shell; several words reach the\n"
			"program as they are. There is no stdin but with --tty. The exit status is\n"
			"that of the command, or 128 + N if signal N ended it. Ctrl-C kills it;\n"
			"with --tty it is typed, as every key.\n",
		.examples =
			"  pandastack sandbox exec 3f2a -- uname -a\n"
			"  pandastack sandbox exec 3f2a -- 'ls -l /workspace | wc -l'\n"
			"  pandastack sandbox exec 3f2a --tty -- python3\n"
			"  pandastack sandbox exec 3f2a --detach -- python3 -m http.server\n"
			"  pandastack sandbox exec 3f2a --cwd /tmp --env N=3 -- python3 job.py\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 2,
		.max_args = INT32_MAX,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r > 0)
		r = make_command(argc - 1, argv + 1, &cmd, err) < 0 ? err->os : 1;
	if (r <= 0) {
		json_decref(env);
		return r;
	}
	if (tty) {
		if (detach || json || timeout_ms || env)
			r = err_set(err, ERR_INVALID, -EINVAL,
				"of the options only --cwd goes with --tty");
		else
			r = terminal_run(argv[0], cmd.data, cwd, err);
		json_decref(env);
		return r;
	}
	body = json_pack("{s:s, s:s*, s:o*}", "cmd", cmd.data, "cwd", cwd, "env", env);
	if (!body)
		return err_set(err, ERR_INVALID, -EILSEQ, "the command is not UTF-8");
	if (detach)
		(void)json_object_set_new(body, "background", json_true());
	if (timeout_ms)
		(void)json_object_set_new(body, "timeout_seconds",
			json_integer((timeout_ms + 999) / 1000));
	r = exec(argv[0], body, json, err);
	json_decref(body);
	return r;
}
