/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: list, get, delete. They are built by `pandastack template build`. */
#include <string.h>

#include "base/clock.h"
#include "http/handlers.h"

static json_t *template_json(const struct template *t)
{
	char built[CLOCK_TEXT_SIZE];

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:O, s:I, s:I, s:i, s:I, s:s, s:b}",
		"name", t->name, "version", t->version, "description",
		t->description ? t->description : "", "engine", t->engine, "accel",
		accel_name(t->image.accel), "kernel", t->kernel, "languages", t->languages,
		"size_bytes", (json_int_t)t->size_bytes, "disk_bytes", (json_int_t)t->disk_bytes,
		"cpu", (int)t->image.cpus, "memory_mb", (json_int_t)(t->image.memory_bytes >> 20),
		"built_at", clock_format_rfc3339(built, t->built_ms), "is_global", 1);
}

int h_template_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct template **all;
	json_t *list;
	size_t n;
	int r = template_list(core_templates(req->core), &all, &n, err);

	if (r < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++) {
		(void)json_array_append_new(list, template_json(all[i]));
		template_free(all[i]);
	}
	free(all);
	return http_resp_json(resp, 200, list, err);
}

/* Where the name is in the path, a name that is unknown is a thing that is not there. */
static int as_not_found(int r, struct err *err)
{
	if (r < 0 && err->kind == ERR_TEMPLATE_UNKNOWN)
		err->kind = ERR_TEMPLATE_NOT_FOUND;
	return r;
}

int h_template_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	int r = template_load(core_templates(req->core), req->params[0], &t, err);

	return r < 0 ? as_not_found(r, err) : http_resp_json(resp, 200, template_json(t), err);
}

int h_template_delete(struct http_req *req, struct http_resp *resp, struct err *err)
{
	const char *force = url_query(&req->url, "force");
	uint64_t kept;
	int r = core_remove_template(req->core, req->params[0], force && strcmp(force, "true") == 0,
		&kept, err);

	if (r < 0)
		return as_not_found(r, err);
	if (kept == 0)
		return http_resp_empty(resp, 204);
	return http_resp_json(resp, 200, json_pack("{s:I}", "kept_bytes", (json_int_t)kept), err);
}
