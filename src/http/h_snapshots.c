/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: take, list, get, delete, to another machine and from there; and what nobody needs any more. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "core/transfer.h"
#include "http/handlers.h"

/* mem_path and state_path are what other servers of this API fill: files of theirs, never shown here. */
static json_t *snapshot_json(const struct snapshot *s)
{
	struct snapshot_info info;
	char created[CLOCK_TEXT_SIZE];

	snapshot_get_info(s, &info);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:s, s:s}", "id",
		info.id, "snapshot_id", info.id, "sandbox_id", info.sandbox_id, "template",
		info.template, "template_version", info.version, "engine", info.engine,
		"created_at", clock_format_rfc3339(created, info.created_ms), "size_bytes",
		(json_int_t)info.size_bytes, "delta_bytes", (json_int_t)info.delta_bytes,
		"memory_mb", (json_int_t)(info.memory_bytes >> 20), "pause_ms",
		(double)info.pause_us / 1000, "mem_path", "", "state_path", "");
}

int h_snapshot_create(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_snapshot_ struct snapshot *s = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = core_snapshot(req->core, sb, &s, err);
	return r < 0 ? r : http_resp_json(resp, 201, snapshot_json(s), err);
}

struct list_query {
	const char *sandbox_id; /* NULL: of any */
	json_t *list;
};

static int add_to_list(struct snapshot *s, void *user)
{
	struct list_query *q = user;
	struct snapshot_info info;

	snapshot_get_info(s, &info);
	if (q->sandbox_id && strcmp(q->sandbox_id, info.sandbox_id) != 0)
		return 0;
	return json_array_append_new(q->list, snapshot_json(s));
}

int h_snapshot_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct list_query q = {.sandbox_id = url_query(&req->url, "sandbox_id")};

	q.list = json_array();
	core_each_snapshot(req->core, add_to_list, &q);
	return http_resp_json(resp, 200, q.list, err);
}

int h_snapshot_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_snapshot_ struct snapshot *s = core_find_snapshot(req->core, req->params[0], err);

	return s ? http_resp_json(resp, 200, snapshot_json(s), err) : err->os;
}

int h_snapshot_delete(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_snapshot_ struct snapshot *s = core_find_snapshot(req->core, req->params[0], err);
	int r = s ? core_delete_snapshot(req->core, s, err) : err->os;

	return r < 0 ? r : http_resp_empty(resp, 204);
}

/* ---- to another machine, and from one ---- */

static ssize_t export_read(void *user, char *dst, size_t max)
{
	return state_writer_read(user, dst, max);
}

static void export_free(void *user)
{
	state_writer_free(user);
}

int h_snapshot_export(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct http_stream stream = {.read = export_read, .free = export_free};
	_cleanup_snapshot_ struct snapshot *s = core_find_snapshot(req->core, req->params[0], err);
	struct state_writer *writer;
	int r = s ? core_export_snapshot(req->core, s, &writer, err) : err->os;

	return r < 0 ? r : http_resp_stream(resp, "application/zstd", -1, &stream, writer);
}

static int upload_begin(struct http_req *req, struct err *err)
{
	req->upload = snapshot_import_new(req->core);
	return 0;
}

static int upload_chunk(struct http_req *req, const void *data, size_t len, struct err *err)
{
	return snapshot_import_feed(req->upload, data, len, err);
}

static void upload_free(void *upload)
{
	snapshot_import_free(upload);
}

const struct http_upload h_snapshot_upload = {
	.begin = upload_begin,
	.chunk = upload_chunk,
	.free = upload_free,
};

int h_snapshot_import(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_snapshot_ struct snapshot *s = NULL;
	int r = snapshot_import_finish(req->upload, &s, err);

	return r < 0 ? r : http_resp_json(resp, 201, snapshot_json(s), err);
}

/* ---- what nobody needs ---- */

struct gc_answer {
	json_t *removed;
	json_int_t bytes;
};

static void add_removed(const char *kind, const char *name, uint64_t bytes, void *user)
{
	struct gc_answer *answer = user;

	answer->bytes += (json_int_t)bytes;
	(void)json_array_append_new(answer->removed,
		json_pack("{s:s, s:s, s:I}", "kind", kind, "name", name, "bytes",
			(json_int_t)bytes));
}

int h_gc(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct gc_answer answer = {.removed = json_array()};
	int r = core_gc(req->core, add_removed, &answer, err);

	if (r < 0) {
		json_decref(answer.removed);
		return r;
	}
	return http_resp_json(resp, 200,
		json_pack("{s:o, s:I}", "removed", answer.removed, "freed_bytes", answer.bytes),
		err);
}
