/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack snapshot create|list|rm|export|import`. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/opts.h"
#include "cli/sandbox.h"
#include "cli/sink.h"
#include "cli/text.h"

enum { CREATE_TIMEOUT_MS = 180 * 1000 };

static char *snapshot_path(const char *id, const char *suffix)
{
	_cleanup_free_ char *escaped = client_escape(id);

	return text_format("/v1/snapshots/%s%s", escaped, suffix);
}

/* A new snapshot: its id, or all of it. Takes the reference. */
static int print_new(json_t *snapshot, bool json, struct err *err)
{
	const json_t *id = json_object_get(snapshot, "id");
	int r = 0;

	if (json)
		r = client_print_json(snapshot, JSON_INDENT(2), err);
	else if (json_is_string(id))
		table_print_value(stdout, id);
	else
		r = err_set(err, ERR_INTERNAL, -EPROTO, "the daemon made a snapshot without id");
	json_decref(snapshot);
	return r;
}

int cmd_snapshot_create(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	struct progress progress = progress_init("taking the snapshot…");
	struct client_request request = {
		.method = "POST",
		.progress = &progress,
		.timeout_ms = CREATE_TIMEOUT_MS,
	};
	json_t *answer = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "snapshot create SANDBOX [--json]",
		.about =
			"Keeps a sandbox as it is now, memory, processes and disk, and prints the\n"
			"snapshot's id. The sandbox stands still for a moment and goes on.\n",
		.examples = "  pandastack snapshot create 3f2a\n"
			    "  pandastack sandbox create --from-snapshot 9c41\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/snapshots", &client, &path, err);
	if (r < 0)
		return r;
	request.path = path;
	r = client_send(client, &request, &answer, err);
	return r < 0 ? r : print_new(answer, json, err);
}

/* A sandbox that is gone has no id that could be completed: it is taken as it is. */
static char *list_path(struct client *client, const char *sandbox)
{
	_cleanup_free_ char *id = NULL, *escaped = NULL;
	struct err err;

	if (!sandbox)
		return text_format("/v1/snapshots");
	escaped = client_escape(sandbox_resolve(client, sandbox, &id, &err) == 0 ? id : sandbox);
	return text_format("/v1/snapshots?sandbox_id=%s", escaped);
}

int cmd_snapshot_list(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"ID", "id", table_any},
		{"SANDBOX", "sandbox_id", table_any},
		{"TEMPLATE", "template", table_any},
		{"AGE", "created_at", table_age},
		{"SIZE", "size_bytes", table_size},
		{"MEMORY", "delta_bytes", table_size},
	};
	_cleanup_client_ struct client *client = NULL;
	const char *sandbox = NULL;
	_cleanup_free_ char *path = NULL;
	bool json = false;
	const struct opt opts[] = {
		{'s', "sandbox", "ID", "only those of this sandbox (its whole id, if it is gone)",
			.text = &sandbox},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "snapshot list [options]",
		.about = "Lists snapshots.\n",
		.examples = "  pandastack snapshot list\n"
			    "  pandastack snapshot list --sandbox 3f2a\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r < 0)
		return r;
	path = list_path(client, sandbox);
	return list_print(client, path, columns, ARRAY_SIZE(columns), json, err);
}

/* A failure is told at once, so that the others are still tried. */
static void remove_one(struct client *client, const json_t *list, const char *prefix,
	json_t *deleted, int *status)
{
	_cleanup_free_ char *path = NULL;
	struct err err = {0};
	const char *id;
	int r = snapshot_match(list, prefix, &id, &err);

	if (r == 0) {
		path = snapshot_path(id, "");
		r = client_json(client, "DELETE", path, NULL, NULL, &err);
	}
	if (r < 0) {
		term_say("%s", err_msg(&err));
		*status = err_cli_exit(err.kind);
		return;
	}
	(void)json_array_append_new(deleted, json_string(id));
}

int cmd_snapshot_rm(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	json_t *list = NULL, *deleted;
	bool json = false;
	int status = 0;
	const struct opt opts[] = {
		{0, "json", NULL, "print the ids of those that were deleted as JSON",
			.flag = &json},
	};
	const struct opts_spec spec = {
		.usage = "snapshot rm ID...",
		.about = "Deletes snapshots. Sandboxes that were made from them go on.\n",
		.examples = "  pandastack snapshot rm 9c41 0be2\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = INT32_MAX,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r == 0)
		r = client_json(client, "GET", "/v1/snapshots", NULL, &list, err);
	if (r < 0)
		return r;
	deleted = json_array();
	for (int a = 0; a < argc; a++)
		remove_one(client, list, argv[a], deleted, &status);
	if (json)
		r = client_print_json(deleted, JSON_INDENT(2), err);
	json_decref(deleted);
	json_decref(list);
	return r < 0 ? r : status;
}

static int print_bytes(const char *file, uint64_t bytes, struct err *err)
{
	json_t *summary = json_pack("{s:s, s:I}", "path", file, "bytes", (json_int_t)bytes);
	int r = client_print_json(summary, JSON_INDENT(2), err);

	json_decref(summary);
	return r;
}

static int export_to(struct client *client, const char *path, const char *file, bool json,
	struct err *err)
{
	struct progress progress = progress_init("exporting…");
	_cleanup_sink_ struct sink sink = {.path = file, .fd = -1};
	const struct client_request request = {
		.method = "GET",
		.path = path,
		.accept = "application/zstd",
		.on_data = sink_write,
		.data_user = &sink,
		.progress = &progress,
	};
	int r = client_send(client, &request, NULL, err);

	if (r < 0)
		return sink.fd >= 0 ? err_wrap(err, "%s is incomplete", file) : r;
	return json ? print_bytes(file, sink.bytes, err) : 0;
}

int cmd_snapshot_export(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *id = NULL, *path = NULL;
	bool json = false;
	const struct opt opts[] = {
		{0, "json", NULL, "print the file's name and length as JSON", .flag = &json},
	};
	const struct opts_spec spec = {
		.usage = "snapshot export ID FILE [--json]",
		.about =
			"Writes a snapshot to one file ('-': stdout), compressed with zstd, that a\n"
			"daemon on another machine can import. That machine must have the same\n"
			"version of the engine, and a template built from the same definition.\n"
			"The file holds the memory of the sandbox: keep it as secret as that.\n",
		.examples =
			"  pandastack snapshot export 9c41 work.pandastack\n"
			"  pandastack snapshot export 9c41 - | ssh there pandastack snapshot import -\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 2,
		.max_args = 2,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = client_new(&client, err);
	if (r == 0)
		r = snapshot_resolve(client, argv[0], &id, err);
	if (r < 0)
		return r;
	path = snapshot_path(id, "/export");
	return export_to(client, path, argv[1], json, err);
}

int cmd_snapshot_import(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_close_ int fd = -1;
	struct progress progress = progress_init("importing…");
	struct client_request request = {
		.method = "POST",
		.path = "/v1/snapshots/import",
		.uploads = true,
		.progress = &progress,
	};
	json_t *answer = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "snapshot import FILE [--json]",
		.about =
			"Reads a file ('-': stdin) that `snapshot export` wrote, here or on another\n"
			"machine, and prints the new snapshot's id.\n",
		.examples = "  pandastack snapshot import work.pandastack\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = source_open(argv[0], &fd, &request.upload_bytes, err);
	if (r == 0)
		r = client_new(&client, err);
	request.upload_fd = fd;
	if (r == 0)
		r = client_send(client, &request, &answer, err);
	return r < 0 ? r : print_new(answer, json, err);
}
