/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, and what it has reached. */
#include "core/egress.h"
#include "http/handlers.h"

/* The policy with all of its members, and the counters. */
static int answer(struct http_resp *resp, struct sandbox *sb, struct err *err)
{
	json_t *counters, *policy = sandbox_network(sb, &counters);
	json_t *all = json_pack("{s:s, s:i}", "egress", "internet", "bytes_per_second", 0);

	(void)json_object_update(all, policy);
	(void)json_object_set_new(all, "counters", counters ? counters : json_null());
	json_decref(policy);
	return http_resp_json(resp, 200, all, err);
}

int h_network_get(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	return r < 0 ? r : answer(resp, sb, err);
}

int h_network_patch(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r = http_req_sandbox(req, &sb, err);

	if (r == 0)
		r = egress_check(req->body, err);
	if (r == 0)
		r = core_set_network(req->core, sb, req->body, err);
	return r < 0 ? r : answer(resp, sb, err);
}
