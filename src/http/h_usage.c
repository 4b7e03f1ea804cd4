/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox takes of the host, and how its guest is. Looking is no use of it, and wakes nobody. */
#include <errno.h>

#include "http/handlers.h"

enum { GUEST_TIMEOUT_MS = 2000 }; /* a machine that is busy is no reason to wait */

/* Without a machine (hibernated, failed) all is 0. */
static json_t *host_part(struct sandbox *sb)
{
	_cleanup_info_ struct sandbox_info info = {0};
	struct vm_usage usage = {0};
	double percent;

	(void)sandbox_get_usage(sb, &usage); /* fails where there is none */
	sandbox_get_info(sb, &info);
	percent = usage.uptime_ms > 0 ? 100 * (double)usage.cpu_ms / (double)usage.uptime_ms : 0;
	return json_pack("{s:s, s:i, s:I, s:f, s:f, s:I, s:I, s:i}", "status",
		sandbox_state_name(info.state), "pid", (int)usage.pid, "uptime_seconds",
		(json_int_t)(usage.uptime_ms / 1000), "host_cpu_percent", percent,
		"host_cpu_seconds", (double)usage.cpu_ms / 1000, "host_rss_bytes",
		(json_int_t)usage.rss_bytes, "host_vsz_bytes", (json_int_t)usage.vsz_bytes,
		"threads", (int)usage.threads);
}

/* What the guest says, as far as it is what it should be; NULL where it says nothing. */
static json_t *guest_part(struct sandbox *sb, int client_fd)
{
	static const struct {
		const char *from, *to;
	} members[] = {
		{"mem_total", "memory_total_bytes"},
		{"mem_available", "memory_available_bytes"},
		{"uptime_ms", "uptime_ms"},
	};
	json_t *ok, *guest;
	struct err err;

	if (sandbox_peek(sb, json_pack("{s:s}", "op", "stats"), GUEST_TIMEOUT_MS, client_fd, &ok,
		    &err) < 0)
		return NULL;
	guest = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(ok, members[i].from);

		if (json_is_integer(v))
			(void)json_object_set(guest, members[i].to, v);
	}
	json_decref(ok);
	return guest;
}

int h_usage(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = core_find(req->core, req->params[0], err);
	json_t *answer, *guest;

	if (!sb)
		return err->os;
	answer = host_part(sb);
	guest = guest_part(sb, req->client_fd);
	if (guest)
		(void)json_object_set_new(answer, "guest", guest);
	return http_resp_json(resp, 200, answer, err);
}
