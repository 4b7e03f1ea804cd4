/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox create|list|get|rm`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/network.h"
#include "cli/opts.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/text.h"

struct create_options {
	const char *template, *snapshot; /* as given, or NULL */
	int64_t ttl_ms, idle_ms;         /* 0: the daemon's default */
	bool persistent;
	struct network_options network;
};

static void set_seconds(json_t *body, const char *key, int64_t ms)
{
	if (ms)
		(void)json_object_set_new(body, key, json_integer((ms + 999) / 1000));
}

static int create_body(struct client *client, const struct create_options *o, json_t **ret,
	struct err *err)
{
	_cleanup_free_ char *snapshot = NULL;
	const char *template = o->template ? o->template : SANDBOX_DEFAULT_TEMPLATE;
	json_t *body, *network = NULL;
	int r;

	if (o->template && o->snapshot)
		return err_set(err, ERR_INVALID, -EINVAL,
			"a snapshot has its template: give one of --template and --from-snapshot");
	if (o->snapshot) {
		r = snapshot_resolve(client, o->snapshot, &snapshot, err);
		if (r < 0)
			return r;
	}
	r = network_body(&o->network, &network, err);
	if (r < 0)
		return r;
	body = snapshot ? json_pack("{s:s}", "from_snapshot", snapshot)
			: json_pack("{s:s}", "template", template);
	if (!body) {
		json_decref(network);
		return err_set(err, ERR_INVALID, -EILSEQ, "the template's name is not UTF-8");
	}
	set_seconds(body, "ttl_seconds", o->ttl_ms);
	set_seconds(body, "idle_seconds", o->idle_ms);
	if (o->persistent)
		(void)json_object_set_new(body, "persistent", json_true());
	if (network)
		(void)json_object_set_new(body, "network", network);
	*ret = body;
	return 0;
}

int cmd_sandbox_create(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	struct create_options o = {0};
	json_t *metadata = NULL, *body = NULL, *answer = NULL;
	bool json = false;
	const struct opt opts[] = {
		{'t', "template", "NAME", "what it is made from (code-interpreter)",
			.text = &o.template},
		{0, "from-snapshot", "ID", "go on from a snapshot instead", .text = &o.snapshot},
		{0, "ttl", "TIME", "delete it when unused for this time (1h)",
			.span_ms = &o.ttl_ms},
		{0, "persistent", NULL, "keep it, and hibernate it when idle",
			.flag = &o.persistent},
		{0, "idle-timeout", "TIME", "after which a persistent one is idle (5m)",
			.span_ms = &o.idle_ms},
		OPTS_NETWORK(&o.network),
		{'m', "metadata", "KEY=VALUE", "a label to find it by; may be repeated",
			.pairs = &metadata},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "sandbox create [options]",
		.about = "Creates a sandbox and prints its id.\n",
		.examples = "  pandastack sandbox create\n"
			    "  pandastack sandbox create -t base --ttl 10m -m task=report\n"
			    "  pandastack sandbox create --persistent --idle-timeout 10m\n"
			    "  pandastack sandbox create --network none\n"
			    "  pandastack sandbox create --from-snapshot 9c41\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r > 0)
		r = client_new(&client, err) < 0 ? err->os : 1;
	if (r > 0)
		r = create_body(client, &o, &body, err) < 0 ? err->os : 1;
	if (r <= 0) {
		json_decref(metadata);
		return r;
	}
	if (metadata)
		(void)json_object_set_new(body, "metadata", metadata);
	r = sandbox_create(client, body, NULL, NULL, &answer, err);
	if (r < 0)
		return r;
	if (json)
		r = client_print_json(answer, JSON_INDENT(2), err);
	else
		table_print_value(stdout, json_object_get(answer, "id"));
	json_decref(answer);
	return r;
}

static int add_query(struct buf *path, const char *prefix, const char *key, const char *value)
{
	_cleanup_free_ char *k = client_escape(key), *v = client_escape(value);

	return buf_appendf(path, "%c%s%s=%s", strchr(path->data, '?') ? '&' : '?', prefix, k, v);
}

/* Takes the reference of `metadata`. */
static int list_path(struct buf *path, const char *status, json_t *metadata, struct err *err)
{
	const char *key;
	json_t *value;
	int r = buf_appendf(path, "/v1/sandboxes");

	if (r == 0 && status)
		r = add_query(path, "", "status", status);
	json_object_foreach(metadata, key, value) {
		if (r == 0)
			r = add_query(path, "metadata.", key, json_string_value(value));
	}
	json_decref(metadata);
	return r < 0 ? err_set_errno(err, r, "the filter is too long") : 0;
}

int cmd_sandbox_list(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"ID", "id", table_any},
		{"TEMPLATE", "template", table_any},
		{"STATUS", "status", table_any},
		{"AGE", "created_at", table_age},
		{"EXPIRES IN", "expires_at", table_left},
		{"ENGINE", "engine", table_any},
		{"METADATA", "metadata", table_any},
	};
	_cleanup_client_ struct client *client = NULL;
	_cleanup_buf_ struct buf path = buf_init(KIB(32));
	const char *status = NULL;
	json_t *metadata = NULL;
	bool json = false;
	const struct opt opts[] = {
		{0, "status", "STATUS", "only those that are running, failed, …", .text = &status},
		{'m', "metadata", "KEY=VALUE", "only those with this label; may be repeated",
			.pairs = &metadata},
		OPT_JSON(&json),
	};
	const struct opts_spec spec = {
		.usage = "sandbox list [options]",
		.about = "Lists sandboxes.\n",
		.examples = "  pandastack sandbox list\n"
			    "  pandastack sandbox list --status running -m task=report\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0) {
		json_decref(metadata);
		return r;
	}
	r = list_path(&path, status, metadata, err);
	if (r == 0)
		r = client_new(&client, err);
	return r < 0 ? r : list_print(client, path.data, columns, ARRAY_SIZE(columns), json, err);
}

int cmd_sandbox_get(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	json_t *answer = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "sandbox get ID [--json]",
		.about = "Shows all that is known about a sandbox. The beginning of an id is\n"
			 "enough where only one sandbox has it.\n",
		.examples = "  pandastack sandbox get 3f2a\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "", &client, &path, err);
	if (r == 0)
		r = client_json(client, "GET", path, NULL, &answer, err);
	if (r < 0)
		return r;
	if (json)
		r = client_print_json(answer, JSON_INDENT(2), err);
	else
		table_print_object(stdout, table_style_of(stdout), answer);
	json_decref(answer);
	return r;
}

/* A failure is told at once, so that the others are still tried. */
static void remove_one(struct client *client, const json_t *list, const char *prefix,
	json_t *deleted, int *status)
{
	struct err err = {0};
	const char *id;
	int r = sandbox_match(list, prefix, &id, &err);

	if (r == 0)
		r = sandbox_delete(client, id, &err);
	if (r < 0) {
		term_say("%s", err_msg(&err));
		*status = err_cli_exit(err.kind);
		return;
	}
	(void)json_array_append_new(deleted, json_string(id));
}

static int remove_sandboxes(int argc, char **argv, bool json, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	json_t *list = NULL, *deleted, *item;
	int r, status = 0;
	size_t i;

	r = client_new(&client, err);
	if (r == 0)
		r = client_json(client, "GET", "/v1/sandboxes", NULL, &list, err);
	if (r < 0)
		return r;
	deleted = json_array();
	for (int a = 0; a < argc; a++)
		remove_one(client, list, argv[a], deleted, &status);
	json_array_foreach(list, i, item) {
		const char *id = json_string_value(json_object_get(item, "id"));

		if (argc == 0 && id)
			remove_one(client, list, id, deleted, &status);
	}
	if (json)
		r = client_print_json(deleted, JSON_INDENT(2), err);
	json_decref(deleted);
	json_decref(list);
	return r < 0 ? r : status;
}

int cmd_sandbox_rm(int argc, char **argv, struct err *err)
{
	bool all = false, json = false;
	const struct opt opts[] = {
		{'a', "all", NULL, "delete every sandbox", .flag = &all},
		{0, "json", NULL, "print the ids of those that were deleted as JSON",
			.flag = &json},
	};
	const struct opts_spec spec = {
		.usage = "sandbox rm ID... | --all",
		.about = "Deletes sandboxes with all that is in them. The beginning of an id is\n"
			 "enough where only one sandbox has it.\n",
		.examples = "  pandastack sandbox rm 3f2a 77b0\n"
			    "  pandastack sandbox rm --all\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.max_args = INT32_MAX,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	if (all == (argc > 0))
		return err_set(err, ERR_INVALID, -EINVAL, "give the ids of sandboxes, or --all");
	return remove_sandboxes(argc, argv, json, err);
}
