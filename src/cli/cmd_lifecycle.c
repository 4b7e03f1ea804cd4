/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox fork|pause|resume|hibernate|wake`. */
#include <errno.h>
#include <stdio.h>

#include "base/parse.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/sandbox.h"
#include "cli/table.h"

enum {
	TIMEOUT_MS = 180 * 1000,
	CHILDREN_MAX = 16, /* the API's */
};

/* POST to a path below the sandbox whose id begins so. *ret_id is to be freed; the reference of `body` is taken. */
static int post(struct client *client, const char *prefix, const char *suffix, json_t *body,
	char **ret_id, json_t **ret, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	struct progress progress = progress_init("waiting for the daemon…");
	struct client_request request = {
		.method = "POST",
		.body = body,
		.progress = &progress,
		.timeout_ms = TIMEOUT_MS,
	};
	int r = sandbox_resolve(client, prefix, ret_id, err);

	if (r == 0) {
		path = sandbox_path(*ret_id, suffix);
		request.path = path;
		r = client_send(client, &request, ret, err);
	}
	json_decref(body);
	return r;
}

static int print_children(const json_t *answer, struct err *err)
{
	json_t *child;
	size_t i;

	json_array_foreach(json_object_get(answer, "children"), i, child) {
		if (!json_is_string(child))
			return err_set(err, ERR_INTERNAL, -EPROTO,
				"the daemon's answer names no sandboxes");
		table_print_value(stdout, child);
	}
	return 0;
}

int cmd_sandbox_fork(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *id = NULL;
	json_t *metadata = NULL, *answer = NULL;
	const char *count_text = "1";
	int64_t count = 1;
	bool json = false;
	const struct opt opts[] = {
		{'n', "count", "N", "so many copies, 1 to 16 (1)", .text = &count_text},
		{'m', "metadata", "KEY=VALUE", "a label to find them by; may be repeated",
			.pairs = &metadata},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "sandbox fork ID [options]",
		.about =
			"Copies a sandbox as it is, memory, processes and disk, and prints the ids\n"
			"of the copies. It stands still for a moment, once for all of them.\n",
		.examples = "  pandastack sandbox fork 3f2a\n"
			    "  pandastack sandbox fork 3f2a --count 4 -m try=second\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r > 0 && parse_i64(count_text, 1, CHILDREN_MAX, &count) < 0)
		r = err_set(err, ERR_INVALID, -EINVAL,
			"--count takes a number from 1 to %d, not '%s'", CHILDREN_MAX, count_text);
	if (r > 0)
		r = client_new(&client, err) < 0 ? err->os : 1;
	if (r <= 0) {
		json_decref(metadata);
		return r;
	}
	r = post(client, argv[0], "/fork",
		json_pack("{s:I, s:o*}", "count", (json_int_t)count, "metadata", metadata), &id,
		&answer, err);
	if (r < 0)
		return r;
	r = json ? client_print_json(answer, JSON_INDENT(2), err) : print_children(answer, err);
	json_decref(answer);
	return r;
}

static int change(const char *prefix, const char *suffix, bool json, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *id = NULL, *path = NULL;
	json_t *sandbox = NULL;
	int r = client_new(&client, err);

	if (r == 0)
		r = post(client, prefix, suffix, NULL, &id, NULL, err);
	if (r < 0 || !json)
		return r;
	path = sandbox_path(id, "");
	r = client_json(client, "GET", path, NULL, &sandbox, err);
	if (r == 0)
		r = client_print_json(sandbox, JSON_INDENT(2), err);
	json_decref(sandbox);
	return r;
}

/* The four that have no options of their own. */
static int command(int argc, char **argv, struct opts_spec spec, const char *suffix,
	struct err *err)
{
	bool json = false;
	const struct opt opts[] = {
		{0, "json", NULL, "print the sandbox as JSON", .flag = &json},
	};
	int r;

	spec.opts = opts;
	spec.n_opts = ARRAY_SIZE(opts);
	spec.min_args = spec.max_args = 1;
	r = opts_parse(&spec, &argc, &argv, err);
	return r <= 0 ? r : change(argv[0], suffix, json, err);
}

int cmd_sandbox_pause(int argc, char **argv, struct err *err)
{
	const struct opts_spec spec = {
		.usage = "sandbox pause ID [--json]",
		.about =
			"Stops a sandbox where it is. It keeps its memory, takes no processor, and\n"
			"answers nothing until it is resumed.\n",
		.examples = "  pandastack sandbox pause 3f2a\n",
	};

	return command(argc, argv, spec, "/pause", err);
}

int cmd_sandbox_resume(int argc, char **argv, struct err *err)
{
	const struct opts_spec spec = {
		.usage = "sandbox resume ID [--json]",
		.about = "Lets a paused sandbox go on.\n",
		.examples = "  pandastack sandbox resume 3f2a\n",
	};

	return command(argc, argv, spec, "/resume", err);
}

int cmd_sandbox_hibernate(int argc, char **argv, struct err *err)
{
	const struct opts_spec spec = {
		.usage = "sandbox hibernate ID [--json]",
		.about =
			"Writes a sandbox to the disk and ends its machine: it takes no memory any\n"
			"more. The next request to it wakes it.\n",
		.examples = "  pandastack sandbox hibernate 3f2a\n",
	};

	return command(argc, argv, spec, "/hibernate", err);
}

int cmd_sandbox_wake(int argc, char **argv, struct err *err)
{
	const struct opts_spec spec = {
		.usage = "sandbox wake ID [--json]",
		.about = "Brings a hibernated sandbox back. Any request to it does that, too.\n",
		.examples = "  pandastack sandbox wake 3f2a\n",
	};

	return command(argc, argv, spec, "/wake", err);
}
