/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a folder of a sandbox, as they happen. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "http/fs_target.h"
#include "http/handlers.h"
#include "http/relay.h"

enum { READY_TIMEOUT_MS = 60000 }; /* a big tree takes time to read */

/* One of the changes that the guest tells; what is none is left out. */
static int tell(struct relay *relay, const json_t *change, struct err *err)
{
	static const char *const types[] = {"create", "write", "remove", "rename", "chmod",
		"overflow"};
	const char *type = json_string_value(json_object_get(change, "type"));
	json_t *path = json_object_get(change, "path"), *to = json_object_get(change, "to");
	json_t *data;

	for (size_t i = 0; type && json_is_string(path) && i < ARRAY_SIZE(types); i++) {
		if (strcmp(type, types[i]) != 0)
			continue;
		data = json_pack("{s:O, s:b}", "path", path, "is_dir",
			json_is_true(json_object_get(change, "is_dir")));
		if (json_is_string(to))
			(void)json_object_set(data, "to", to);
		return relay_emit(relay, types[i], data, err);
	}
	return 0;
}

static int on_event(struct relay *relay, const json_t *event, struct err *err)
{
	json_t *change;
	size_t i;
	int r;

	json_array_foreach(json_object_get(event, "events"), i, change) {
		r = tell(relay, change, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The folder is gone. */
static int on_close(struct relay *relay, const json_t *ok, struct err *err)
{
	return 0;
}

/* The guest says when it watches: what changes after the answer has begun is told. */
static int wait_until_ready(const struct http_req *req, struct sandbox *sb, struct link_stream *s,
	struct err *err)
{
	struct link_event ev;
	int r = link_next(s, &ev, clock_mono_ms() + READY_TIMEOUT_MS, req->client_fd, err);

	if (r == 0)
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
			"watch timeout after %ds: the folder is too big, watch one below it",
			READY_TIMEOUT_MS / 1000);
	if (r == -EPIPE)
		return sandbox_explain(sb, err);
	if (r < 0)
		return r;
	if (ev.type != LINK_EVENT)
		r = err_set(err, ERR_INTERNAL, -EPROTO,
			"the sandbox ended a watch before it began");
	link_event_done(s, &ev);
	return MIN(r, 0);
}

int h_fs_watch(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct relay_ops ops = {.on_event = on_event, .on_close = on_close};
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_stream_ struct link_stream *s = NULL;
	bool recursive = false;
	const char *path;
	struct relay *relay;
	int r = fs_read_target(req, &sb, &path, err);

	if (r == 0)
		r = url_query_flag(&req->url, "recursive", &recursive, err);
	if (r == 0)
		r = sandbox_open(sb,
			json_pack("{s:s, s:s, s:b}", "op", "watch", "path", path, "recursive",
				recursive),
			&s, err);
	if (r == 0)
		r = wait_until_ready(req, sb, s, err);
	if (r < 0)
		return r;
	return relay_start(req, resp, &ops, steal_ptr(&sb), steal_ptr(&s), &relay);
}
