/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack run`: code in a sandbox of its own, which is gone afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "cli/text.h"

enum {
	READ_BYTES = 64 * 1024,
	DEFAULT_TIMEOUT_MS = 3600 * 1000,
	STATUS_INTERRUPTED = 130, /* as shells have it for SIGINT */
};

struct run {
	const char *file; /* "-": stdin; NULL with `code` */
	const char *code;
	const char *template;
	const char *language; /* NULL: as the file's name says */
	const char *chart_dir;
	int64_t timeout_ms;
	bool keep;
	bool json;

	struct client *client; /* owned */
	char *sandbox;         /* owned; its id */
	char *session_path;    /* owned; of the API */
	unsigned int n_signals;
};

static void run_done(struct run *run)
{
	(void)client_free(run->client);
	free(run->sandbox);
	free(run->session_path);
}
#define _cleanup_run_ CLEANUP(run_done)

static int read_file(const char *path, struct buf *code, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	_cleanup_close_ int opened = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	if (!is_stdin && opened < 0)
		return err_set(err, ERR_FILE_NOT_FOUND, -errno, "cannot open %s: %s", path,
			strerror(errno));
	while (n > 0) {
		int r = buf_reserve(code, MIN((size_t)READ_BYTES, code->max - code->len));

		if (r < 0 || code->len == code->max)
			return err_set(err, ERR_TOO_LARGE, -EFBIG, "%s is too large to be run",
				path);
		n = read(is_stdin ? STDIN_FILENO : opened, code->data + code->len,
			MIN((size_t)READ_BYTES, code->max - code->len));
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_set_errno(err, -errno, "cannot read %s", path);
		else
			code->len += (size_t)n;
	}
	return 0;
}

/* The body of POST …/run. */
static int make_request(const struct run *run, json_t **ret, struct err *err)
{
	_cleanup_buf_ struct buf file = buf_init(LIMIT_CODE_BYTES + 1);
	json_t *code;

	if (run->code) {
		code = json_string(run->code);
	} else {
		int r = read_file(run->file, &file, err);

		if (r < 0)
			return r;
		code = json_stringn(file.data, file.len);
	}
	if (!code)
		return err_set(err, ERR_INVALID, -EILSEQ, "the code is not UTF-8");
	*ret = json_pack("{s:o, s:I, s:b}", "code", code, "timeout_ms", (json_int_t)run->timeout_ms,
		"ansi", !run->json && term_has_colour(STDERR_FILENO));
	return 0;
}

/* While it is not known whether there is a sandbox to delete: only the second signal ends it. */
static int on_signal_early(int signal, void *user)
{
	struct run *run = user;

	return ++run->n_signals > 1 ? -ECANCELED : 0;
}

/* The first Ctrl-C interrupts the code as in a notebook; the second, and any other signal, ends. */
static int on_signal(int signal, void *user)
{
	struct run *run = user;
	_cleanup_free_ char *path = text_format("%s/interrupt", run->session_path);
	struct err err = {0};

	if (signal != SIGINT || ++run->n_signals > 1)
		return -ECANCELED;
	return client_json(run->client, "POST", path, NULL, NULL, &err);
}

static int create(struct run *run, struct err *err)
{
	int64_t ttl = MAX(run->timeout_ms / 1000 + 60, (int64_t)DEFAULT_TTL_SECONDS);
	json_t *body = json_pack("{s:s, s:I}", "template", run->template, "ttl_seconds",
		(json_int_t)MIN(ttl, (int64_t)LIMIT_TTL_SECONDS));
	json_t *answer = NULL;
	int r = sandbox_create(run->client, body, on_signal_early, run, &answer, err);

	if (r < 0)
		return r;
	run->sandbox = text_format("%s", json_string_value(json_object_get(answer, "id")));
	json_decref(answer);
	if (run->n_signals)
		return err_set(err, ERR_INTERNAL, -ECANCELED, "interrupted");
	return 0;
}

/* What a file's name says it is in; Python where it says nothing. */
static const char *language_of(const char *file)
{
	static const char *const suffixes[][2] = {
		{".js", "javascript"},
		{".mjs", "javascript"},
		{".sh", "bash"},
		{".bash", "bash"},
		{".R", "R"},
		{".r", "R"},
	};
	const char *suffix = file ? strrchr(file, '.') : NULL;

	for (size_t i = 0; suffix && i < ARRAY_SIZE(suffixes); i++) {
		if (strcmp(suffix, suffixes[i][0]) == 0)
			return suffixes[i][1];
	}
	return "python";
}

static int open_session(struct run *run, struct err *err)
{
	_cleanup_free_ char *path = sandbox_path(run->sandbox, "/repl/sessions");
	_cleanup_free_ char *session = NULL;
	json_t *answer = NULL;
	const char *id;
	int r;

	r = client_json(run->client, "POST", path,
		json_pack("{s:s}", "language",
			run->language ? run->language : language_of(run->file)),
		&answer, err);
	if (r < 0)
		return r;
	id = json_string_value(json_object_get(answer, "id"));
	if (id) {
		session = client_escape(id);
		run->session_path = text_format("%s/%s", path, session);
	} else {
		r = err_set(err, ERR_INTERNAL, -EPROTO, "the daemon opened a session without id");
	}
	json_decref(answer);
	return r;
}

/* The whole answer at the end, as JSON. */
static int run_buffered(struct run *run, const struct client_request *request, struct output *out,
	struct err *err)
{
	json_t *answer = NULL, *result;
	size_t i;
	int r = client_send(run->client, request, &answer, err);

	if (r < 0)
		return r;
	r = client_print_json(answer, JSON_INDENT(2), err);
	json_array_foreach(json_object_get(answer, "results"), i, result) {
		if (r == 0 && out->chart_dir)
			r = output_save(out, result, err);
	}
	if (r == 0)
		r = output_status(answer);
	json_decref(answer);
	return r;
}

static int run_code(struct run *run, const json_t *body, struct err *err)
{
	_cleanup_output_ struct output out = output_init(run->chart_dir);
	_cleanup_free_ char *path = NULL;
	struct client_request request = {
		.method = "POST",
		.body = body,
		.on_signal = on_signal,
		.signal_user = run,
	};
	int r = open_session(run, err);

	if (r < 0)
		return r;
	path = text_format("%s/run", run->session_path);
	request.path = path;
	if (run->json)
		return run_buffered(run, &request, &out, err);
	request.accept = "text/event-stream";
	request.on_data = output_feed;
	request.data_user = &out;
	r = client_send(run->client, &request, NULL, err);
	return r < 0 ? r : output_end(&out, err);
}

static int run_all(struct run *run, struct err *err)
{
	_cleanup_free_ char *clean = NULL;
	json_t *body = NULL;
	struct err why = {0};
	int r = run->chart_dir ? fs_mkdirs(run->chart_dir, 0777, err) : 0;

	if (r == 0)
		r = make_request(run, &body, err);
	if (r == 0)
		r = client_new(&run->client, err);
	if (r == 0)
		r = client_catch_signals(run->client, err);
	if (r == 0)
		r = create(run, err);
	if (r == 0)
		r = run_code(run, body, err);
	json_decref(body);
	clean = text_clean(run->sandbox ? run->sandbox : "");
	if (run->sandbox && run->keep)
		term_say("the sandbox is kept: %s", clean);
	else if (run->sandbox && sandbox_delete(run->client, run->sandbox, &why) < 0)
		term_say("could not delete the sandbox %s: %s", clean, err_msg(&why));
	return run->n_signals && r > 0 ? STATUS_INTERRUPTED : r;
}

int cmd_run(int argc, char **argv, struct err *err)
{
	_cleanup_run_ struct run run = {
		.template = SANDBOX_DEFAULT_TEMPLATE,
		.timeout_ms = DEFAULT_TIMEOUT_MS,
	};
	const struct opt opts[] = {
		{'c', "code", "CODE", "run this instead of a file", .text = &run.code},
		{'l', "language", "NAME",
			"python, javascript, bash, R, …; else as the file's name says (python)",
			.text = &run.language},
		{'t', "template", "NAME", "what the sandbox is made from (code-interpreter)",
			.text = &run.template},
		{'o', "out", "DIR", "save charts here: chart-1.png, chart-2.svg, …",
			.text = &run.chart_dir},
		{0, "timeout", "TIME", "interrupt the code after this time (1h)",
			.span_ms = &run.timeout_ms},
		{0, "keep", NULL, "do not delete the sandbox, and tell its id", .flag = &run.keep},
		OPT_JSON(&run.json),
	};
	const struct opts_spec spec = {
		.usage = "run [FILE | - | -c CODE] [options]",
		.about = "Runs code in a new sandbox, shows its output as it comes, and deletes\n"
			 "the sandbox. Without a file, or for '-', the code is read from stdin.\n"
			 "The exit status is the code's: 0, 1 after an exception, or that\n"
			 "of sys.exit(). Ctrl-C interrupts the code; a second Ctrl-C ends it and\n"
			 "the sandbox at once.\n",
		.examples = "  pandastack run -c 'print(6 * 7)'\n"
			    "  pandastack run analysis.py --out charts\n"
			    "  pandastack run server.test.js\n"
			    "  pandastack run -l bash -c 'uname -a'\n"
			    "  echo 'import sys; sys.exit(3)' | pandastack run; echo $?\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	if (run.code && argc)
		return err_set(err, ERR_INVALID, -EINVAL, "give a file or -c CODE, not both");
	if (!run.code && !argc && isatty(STDIN_FILENO))
		return err_set(err, ERR_INVALID, -EINVAL,
			"nothing to run: give a file or -c CODE; see: pandastack run --help");
	run.file = argc ? argv[0] : "-";
	return run_all(&run, err);
}
