/* SPDX-License-Identifier: Apache-2.0 */
/* Forks, trees of them, and the end of a tree. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "core/snapshot.h"
#include "http/handlers.h"
#include "http/json_in.h"
#include "http/sandbox_json.h"

static int read_spec(const json_t *body, int64_t count, bool tree, struct fork_spec *ret,
	struct err *err)
{
	json_t *metadata = NULL;
	int r = json_in_int(body, "count", 1, FORK_CHILDREN_MAX, &count, err);

	*ret = (struct fork_spec){.tree = tree};
	if (r == 0)
		r = json_in_bool(body, "allow_partial", &ret->allow_partial, err);
	if (r == 0)
		r = read_metadata(body, &metadata, err);
	ret->count = (unsigned int)count;
	ret->metadata = metadata;
	return r;
}

static json_t *failures(const struct fork_spec *spec, const struct fork_result *result)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < spec->count; i++) {
		if (!result->children[i])
			(void)json_array_append_new(list,
				json_pack("{s:i, s:s}", "index", (int)i, "err",
					err_msg(&result->errors[i])));
	}
	return list;
}

/* Clients of a fork take the id or the whole child, of a tree the whole children. */
static json_t *answer(const struct sandbox *parent, const struct fork_spec *spec,
	const struct fork_result *result)
{
	char at[CLOCK_TEXT_SIZE];
	json_t *children = json_array(), *errors = failures(spec, result);
	json_t *json = json_pack("{s:s, s:s, s:s, s:f, s:I}", "parent_id", sandbox_id(parent),
		"snapshot_id", result->id, "at", clock_format_rfc3339(at, clock_real_ms()),
		"pause_ms", (double)result->pause_us / 1000, "delta_bytes",
		(json_int_t)result->delta_bytes);

	for (unsigned int i = 0; i < spec->count; i++) {
		struct sandbox *child = result->children[i];

		if (!child)
			continue;
		(void)json_array_append_new(children,
			spec->tree ? sandbox_json(child) : json_string(sandbox_id(child)));
		if (!spec->tree && !json_object_get(json, "sandbox"))
			(void)json_object_set_new(json, "sandbox", sandbox_json(child));
	}
	(void)json_object_set_new(json, "children", children);
	if (spec->tree)
		(void)json_object_set_new(json, "tree_id", json_string(result->id));
	if (json_array_size(errors) > 0)
		(void)json_object_set(json, "errors", errors);
	json_decref(errors);
	return json;
}

static int do_fork(struct http_req *req, struct http_resp *resp, int64_t count, bool tree,
	struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	CLEANUP(fork_result_done) struct fork_result result = {0};
	struct fork_spec spec;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = read_spec(req->body, count, tree, &spec, err);
	if (r == 0)
		r = core_fork(req->core, sb, &spec, &result, err);
	return r < 0 ? r : http_resp_json(resp, 201, answer(sb, &spec, &result), err);
}

int h_fork(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return do_fork(req, resp, 1, false, err);
}

int h_fork_tree(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return do_fork(req, resp, 2, true, err);
}

/* ---- promote ---- */

struct promotion {
	struct core *core;
	const struct sandbox *winner;
	const char *tree_id;
	json_t *deleted, *failures;
};

static int end_sibling(struct sandbox *sb, void *user)
{
	struct promotion *p = user;
	_cleanup_info_ struct sandbox_info info = {0};
	const char *tree;
	struct err err;

	if (sb == p->winner)
		return 0;
	sandbox_get_info(sb, &info);
	tree = json_string_value(json_object_get(info.metadata, "fork_tree_id"));
	if (!tree || strcmp(tree, p->tree_id) != 0)
		return 0;
	if (core_delete(p->core, sb, &err) == 0)
		(void)json_array_append_new(p->deleted, json_string(info.id));
	else
		(void)json_object_set_new(p->failures, info.id, json_string(err_msg(&err)));
	return 0;
}

int h_promote(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_info_ struct sandbox_info info = {0};
	struct promotion p = {.core = req->core};
	bool cleanup = false;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = json_in_bool(req->body, "cleanup_siblings", &cleanup, err);
	if (r == 0)
		r = json_in_str(req->body, "tree_id", LIMIT_METADATA_VALUE_BYTES, &p.tree_id, err);
	if (r < 0)
		return r;
	sandbox_get_info(sb, &info);
	if (!p.tree_id)
		p.tree_id = json_string_value(json_object_get(info.metadata, "fork_tree_id"));
	if (!p.tree_id)
		return err_set(err, ERR_INVALID, -EINVAL,
			"tree_id required: this sandbox does not come from a fork-tree");
	p.winner = sb;
	p.deleted = json_array();
	p.failures = json_object();
	if (cleanup)
		core_each(req->core, end_sibling, &p);
	sandbox_event(sb, "fork_tree.promoted",
		json_pack("{s:s, s:O, s:O}", "tree_id", p.tree_id, "deleted", p.deleted, "failures",
			p.failures));
	return http_resp_json(resp, 200,
		json_pack("{s:s, s:s, s:o, s:o}", "winner", info.id, "tree_id", p.tree_id,
			"deleted", p.deleted, "failures", p.failures),
		err);
}
