/* SPDX-License-Identifier: Apache-2.0 */
/* About the server: health, version, metrics, engines, and whose key it is. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "http/handlers.h"
#include "version.h"

enum { METRICS_BYTES_MAX = 64 << 10 };

static json_t *engine_json(const struct engine_info *e)
{
	json_t *lacks = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(e->lacks) && e->lacks[i]; i++)
		(void)json_array_append_new(lacks, json_string(e->lacks[i]));
	return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:o}", "name", e->name, "isolation",
		e->isolation, "available", e->available, "accel",
		e->available ? accel_name(e->accel) : "", "version", e->version, "why", e->why,
		"lacks", lacks);
}

int h_healthz(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return http_resp_json(resp, 200,
		json_pack("{s:s, s:o}", "status", "ok", "engine",
			engine_json(core_engine(req->core))),
		err);
}

int h_version(struct http_req *req, struct http_resp *resp, struct err *err)
{
	struct utsname u;

	if (uname(&u) < 0)
		return err_set_errno(err, -errno, "can't tell the machine's kind");
	return http_resp_json(resp, 200,
		json_pack("{s:s, s:s, s:s, s:s}", "service", "pandastack", "semver",
			PANDASTACK_VERSION, "os", "linux", "arch", u.machine),
		err);
}

/* The one that runs is known; others are asked what they find. */
int h_engines(struct http_req *req, struct http_resp *resp, struct err *err)
{
	const struct engine_info *own = core_engine(req->core);
	json_t *list = json_array();

	for (size_t i = 0; engines[i]; i++) {
		struct engine_info info = *own;
		bool used = strcmp(engines[i]->name, own->name) == 0;
		json_t *e;

		if (!used)
			engines[i]->probe(&info);
		e = engine_json(&info);
		(void)json_object_set_new(e, "selected", json_boolean(used));
		(void)json_array_append_new(list, e);
	}
	return http_resp_json(resp, 200, list, err);
}

static int append_counter(struct buf *text, const char *name, const char *help, uint64_t value)
{
	return buf_appendf(text,
		"# HELP pandastack_%s %s\n# TYPE pandastack_%s counter\n"
		"pandastack_%s %" PRIu64 "\n",
		name, help, name, name, value);
}

static int append_sandboxes(struct buf *text, const struct core_stats *stats)
{
	int r = buf_appendf(text,
		"# HELP pandastack_sandboxes Sandboxes now, by state.\n"
		"# TYPE pandastack_sandboxes gauge\n");

	for (int s = 0; r == 0 && s < SANDBOX_DELETED; s++)
		r = buf_appendf(text, "pandastack_sandboxes{state=\"%s\"} %u\n",
			sandbox_state_name((enum sandbox_state)s), stats->sandboxes[s]);
	return r;
}

static int append_takes(struct buf *text, const char *what, const char *help,
	const uint64_t counts[_POOL_MAX])
{
	int r = buf_appendf(text,
		"# HELP pandastack_pool_%s_total Times that a pool was asked and %s.\n"
		"# TYPE pandastack_pool_%s_total counter\n",
		what, help, what);

	for (int k = 0; r == 0 && k < _POOL_MAX; k++)
		r = buf_appendf(text, "pandastack_pool_%s_total{pool=\"%s\"} %" PRIu64 "\n", what,
			pool_kind_name((enum pool_kind)k), counts[k]);
	return r;
}

static int append_pools(struct buf *text, const struct pool_stats *stats)
{
	int r = buf_appendf(text,
		"# HELP pandastack_pool_spares Machines that wait now, by pool.\n"
		"# TYPE pandastack_pool_spares gauge\n");

	for (int k = 0; r == 0 && k < _POOL_MAX; k++)
		r = buf_appendf(text, "pandastack_pool_spares{pool=\"%s\"} %u\n",
			pool_kind_name((enum pool_kind)k), stats->spares[k]);
	if (r == 0)
		r = append_takes(text, "hits", "had a machine", stats->hits);
	if (r == 0)
		r = append_takes(text, "misses", "had no machine", stats->misses);
	return r;
}

static int append_histograms(struct buf *text, const struct core_stats *stats)
{
	int r = histogram_append(&boot_seconds_family, stats->boot_seconds, text);

	if (r == 0)
		r = histogram_append(&capture_pause_seconds_family, stats->capture_pause_seconds,
			text);
	if (r == 0)
		r = histogram_append(&capture_bytes_family, stats->capture_bytes, text);
	return r;
}

static int append_requests(struct buf *text, struct http_stats *stats)
{
	int r = buf_appendf(text,
		"# HELP pandastack_http_requests_total Requests answered, by status.\n"
		"# TYPE pandastack_http_requests_total counter\n");

	for (size_t i = 2; r == 0 && i < ARRAY_SIZE(stats->answers); i++)
		r = buf_appendf(text, "pandastack_http_requests_total{status=\"%zuxx\"} %llu\n", i,
			atomic_load(&stats->answers[i]));
	if (r == 0)
		r = buf_appendf(text,
			"# HELP pandastack_websockets WebSockets now.\n"
			"# TYPE pandastack_websockets gauge\n"
			"pandastack_websockets %u\n",
			atomic_load(&stats->websockets));
	return r;
}

int h_metrics(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_buf_ struct buf text = buf_init(METRICS_BYTES_MAX);
	struct core_stats stats;
	int r;

	core_stats(req->core, &stats);
	r = append_sandboxes(&text, &stats);
	if (r == 0)
		r = append_counter(&text, "sandboxes_created_total", "Sandboxes created.",
			stats.created);
	if (r == 0)
		r = append_counter(&text, "sandboxes_failed_total", "Sandboxes that failed.",
			stats.failed);
	if (r == 0)
		r = append_counter(&text, "sandboxes_expired_total",
			"Sandboxes whose time ran out.", stats.expired);
	if (r == 0)
		r = append_counter(&text, "sandboxes_deleted_total", "Sandboxes deleted.",
			stats.deleted);
	if (r == 0)
		r = append_histograms(&text, &stats);
	if (r == 0)
		r = append_pools(&text, &stats.pools);
	if (r == 0)
		r = append_requests(&text, req->stats);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, r, "out of memory");
	return http_resp_text(resp, 200, "text/plain; version=0.0.4; charset=utf-8", &text, err);
}

/* One owner, one workspace: the answer that clients of a shared service expect. */
int h_me(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return http_resp_json(resp, 200,
		json_pack("{s:s, s:s, s:s, s:[s], s:s}", "user_id", "owner", "email", "",
			"current_org", "default", "orgs", "default", "auth_method", "api_key"),
		err);
}

int h_tokens_list(struct http_req *req, struct http_resp *resp, struct err *err)
{
	return http_resp_json(resp, 200, json_pack("{s:o}", "items", auth_list(req->auth)), err);
}
