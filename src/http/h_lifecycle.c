/* SPDX-License-Identifier: Apache-2.0 */
/* Pause and resume, hibernate and wake, and what ends or stops a sandbox by itself. */
#include <errno.h>

#include "base/limits.h"
#include "core/snapshot.h"
#include "http/handlers.h"
#include "http/json_in.h"

typedef int lifecycle_fn(struct core *core, struct sandbox *sb, struct err *err);

static int change(struct http_req *req, lifecycle_fn *fn, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	return r < 0 ? r : fn(req->core, sb, err);
}

int h_pause(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = change(req, core_pause, err);

	return r < 0 ? r : http_resp_empty(resp, 204);
}

int h_resume(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = change(req, core_resume, err);

	return r < 0 ? r : http_resp_empty(resp, 204);
}

static int answer_status(struct http_resp *resp, const char *status, struct err *err)
{
	return http_resp_json(resp, 200, json_pack("{s:s}", "status", status), err);
}

int h_hibernate(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = change(req, core_hibernate, err);

	return r < 0 ? r : answer_status(resp, "hibernated", err);
}

int h_wake(struct http_req *req, struct http_resp *resp, struct err *err)
{
	int r = change(req, core_wake, err);

	return r < 0 ? r : answer_status(resp, "running", err);
}

static int answer_lifecycle(struct http_resp *resp, struct sandbox *sb, struct err *err)
{
	_cleanup_info_ struct sandbox_info info = {0};

	sandbox_get_info(sb, &info);
	return http_resp_json(resp, 200,
		json_pack("{s:I, s:b, s:I, s:s}", "ttl_seconds", (json_int_t)info.ttl_seconds,
			"persistent", info.persistent, "idle_seconds",
			(json_int_t)info.idle_seconds, "status", sandbox_state_name(info.state)),
		err);
}

int h_lifecycle_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	return r < 0 ? r : answer_lifecycle(resp, sb, err);
}

int h_lifecycle_patch(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int64_t ttl = 0, idle = 0;
	bool persistent = false;
	struct lifecycle change = {0};
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = json_in_int(req->body, "ttl_seconds", 0, LIMIT_TTL_SECONDS, &ttl, err);
	if (r == 0)
		r = json_in_int(req->body, "idle_seconds", 1, LIMIT_TTL_SECONDS, &idle, err);
	if (r == 0)
		r = json_in_bool(req->body, "persistent", &persistent, err);
	if (r < 0)
		return r;
	if (ttl == 0)
		ttl = DEFAULT_TTL_SECONDS; /* as at create */
	if (json_is_number(json_object_get(req->body, "ttl_seconds")))
		change.ttl_seconds = &ttl;
	if (idle)
		change.idle_seconds = &idle;
	if (json_is_boolean(json_object_get(req->body, "persistent")))
		change.persistent = &persistent;
	r = core_set_lifecycle(req->core, sb, &change, err);
	return r < 0 ? r : answer_lifecycle(resp, sb, err);
}
