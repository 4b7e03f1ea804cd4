/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox. Contents pass through in pieces, both ways: the daemon never holds a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "http/body_stream.h"
#include "http/fs_target.h"
#include "http/handlers.h"
#include "http/json_in.h"

enum {
	CALL_TIMEOUT_MS = 120000, /* a big tree takes time to remove */
	STALL_MS = 60000,         /* a guest that neither takes nor gives a byte for so long */
};

int fs_check_path(const char *path, const char *name, struct err *err)
{
	if (!path || !*path)
		return err_set(err, ERR_INVALID, -EINVAL, "`%s` is required: an absolute path",
			name);
	if (*path != '/')
		return err_set(err, ERR_INVALID, -EINVAL,
			"`%s` must be an absolute path, one that begins with '/'", name);
	if (strlen(path) > LIMIT_PATH_BYTES)
		return err_set(err, ERR_INVALID, -EINVAL, "`%s` is longer than %d bytes", name,
			LIMIT_PATH_BYTES);
	return 0;
}

int fs_read_target(struct http_req *req, struct sandbox **ret_sb, const char **ret_path,
	struct err *err)
{
	int r;

	*ret_path = url_query(&req->url, "path");
	r = fs_check_path(*ret_path, "path", err);
	return r < 0 ? r : http_req_sandbox(req, ret_sb, err);
}

static int err_stalled(struct err *err)
{
	return err_set(err, ERR_TIMEOUT, -ETIMEDOUT,
		"file timeout after %ds: the sandbox does not answer", STALL_MS / 1000);
}

/* ---- reading ---- */

struct download {
	struct sandbox *sb;         /* owned reference */
	struct link_stream *stream; /* owned */
	int client_fd;              /* borrowed */
	struct link_event ev;       /* held while `taken` < `ev.len` */
	size_t taken;
	int64_t left; /* bytes to be sent, or -1: until the guest ends */
};

static void download_free(void *user)
{
	struct download *d = user;

	if (d->taken < d->ev.len)
		link_event_done(d->stream, &d->ev);
	link_stream_free(d->stream);
	sandbox_unref(d->sb);
	free(d);
}

/* Waits for the next bytes. 1, 0 at the end, or an error. */
static int download_fill(struct download *d, struct err *err)
{
	for (;;) {
		int r = link_next(d->stream, &d->ev, clock_mono_ms() + STALL_MS, d->client_fd, err);
		bool over;

		d->taken = 0;
		if (r <= 0) {
			d->ev.len = 0;
			return r == 0 ? err_stalled(err) : r;
		}
		if (d->ev.type == LINK_DATA && d->ev.len > 0)
			return 1;
		over = d->ev.type == LINK_CLOSE;
		link_event_done(d->stream, &d->ev);
		d->ev.len = 0;
		if (over)
			return d->left > 0 ? -EIO : 0; /* it became shorter meanwhile */
	}
}

static ssize_t download_read(void *user, char *dst, size_t max)
{
	struct download *d = user;
	size_t n;

	if (d->left == 0)
		return 0;
	if (d->taken == d->ev.len) {
		int r = download_fill(d, NULL);

		if (r <= 0)
			return r;
	}
	n = MIN(max, d->ev.len - d->taken);
	if (d->left > 0)
		n = MIN(n, (size_t)d->left);
	memcpy(dst, d->ev.data + d->taken, n);
	d->taken += n;
	if (d->left > 0)
		d->left -= (int64_t)n;
	if (d->taken == d->ev.len) {
		link_event_done(d->stream, &d->ev);
		d->taken = d->ev.len = 0;
	}
	return (ssize_t)n;
}

/* Puts advice behind the message. */
static int err_append(struct err *err, const char *advice)
{
	char msg[sizeof(err->msg)];

	(void)snprintf(msg, sizeof(msg), "%s", err->msg);
	return err_set(err, err->kind, err->os, "%s%s", msg, advice);
}

/* The guest begins with what the file is, or ends with an error. */
static int wait_for_size(struct download *d, int64_t *ret, struct err *err)
{
	struct link_event ev;
	int r = link_next(d->stream, &ev, clock_mono_ms() + STALL_MS, d->client_fd, err);

	if (r == 0)
		return err_stalled(err);
	if (r == -EPIPE)
		return sandbox_explain(d->sb, err);
	if (r == -EREMOTEIO && err->kind == ERR_INVALID)
		return err_append(err,
			"; only files can be read, folders are listed by GET .../fs/dir");
	if (r < 0)
		return r;
	*ret = json_integer_value(json_object_get(ev.json, "size"));
	if (ev.type != LINK_EVENT)
		r = err_set(err, ERR_INTERNAL, -EPROTO, "the sandbox gave a file without its size");
	link_event_done(d->stream, &ev);
	return r < 0 ? r : 0;
}

int h_fs_read(struct http_req *req, struct http_resp *resp, struct err *err)
{
	static const struct http_stream stream = {.read = download_read, .free = download_free};
	struct download *d = xnew(struct download);
	const char *path;
	int64_t size = 0;
	int r = fs_read_target(req, &d->sb, &path, err);

	d->client_fd = req->client_fd;
	if (r == 0)
		r = sandbox_open(d->sb, json_pack("{s:s, s:s}", "op", "read", "path", path),
			&d->stream, err);
	if (r == 0)
		r = wait_for_size(d, &size, err);
	if (r < 0) {
		download_free(d);
		return r;
	}
	/* Files of /proc say 0 and hold more: theirs are sent until they end. */
	d->left = size > 0 ? size : -1;
	return http_resp_stream(resp, "application/octet-stream", d->left, &stream, d);
}

/* ---- writing ---- */

static int upload_begin(struct http_req *req, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *path;
	int r = fs_read_target(req, &sb, &path, err);

	return r < 0 ? r
		     : body_stream_begin(req, sb,
			       json_pack("{s:s, s:s}", "op", "write", "path", path), err);
}

const struct http_upload h_fs_upload = {
	.begin = upload_begin,
	.chunk = body_stream_chunk,
	.free = body_stream_free,
};

int h_fs_write(struct http_req *req, struct http_resp *resp, struct err *err)
{
	json_t *ok;
	json_int_t bytes;
	int r = body_stream_end(req, &ok, err);

	if (r < 0)
		return r;
	bytes = json_integer_value(json_object_get(ok, "bytes"));
	json_decref(ok);
	return http_resp_json(resp, 200,
		json_pack("{s:s, s:I}", "path", url_query(&req->url, "path"), "bytes", bytes), err);
}

/* ---- names ---- */

/* Members of a FileInfo that are what they should be; the guest may say anything. */
static json_t *file_info(const json_t *guest)
{
	static const struct {
		const char *key;
		json_type type;
	} members[] = {
		{"name", JSON_STRING},
		{"path", JSON_STRING},
		{"type", JSON_STRING},
		{"mode", JSON_STRING},
		{"size", JSON_INTEGER},
		{"mtime", JSON_INTEGER},
		{"target", JSON_STRING},
	};
	json_t *info = json_pack("{s:s, s:b, s:i, s:s, s:i}", "name", "", "is_dir",
		json_is_true(json_object_get(guest, "is_dir")), "size", 0, "mode", "", "mtime", 0);

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(guest, members[i].key);

		if (v && json_typeof(v) == members[i].type)
			(void)json_object_set(info, members[i].key, v);
	}
	return info;
}

int h_fs_stat(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *path;
	json_t *ok = NULL, *info;
	int r = fs_read_target(req, &sb, &path, err);

	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s, s:s}", "op", "stat", "path", path),
			CALL_TIMEOUT_MS, req->client_fd, &ok, err);
	if (r < 0)
		return r;
	info = file_info(ok);
	json_decref(ok);
	return http_resp_json(resp, 200, info, err);
}

/* The entries of one event as JSON text, so that a long list does not live in memory as objects. */
static int append_entries(struct buf *text, const json_t *entries, struct err *err)
{
	json_t *entry;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)entries, i, entry) {
		json_t *info = file_info(entry);
		bool ok = (text->data[text->len - 1] == '[' || buf_append(text, ",", 1) == 0) &&
			json_dump_callback(info, buf_sink, text, JSON_COMPACT) == 0;

		json_decref(info);
		if (!ok)
			return err_set(err, ERR_TOO_LARGE, -EMSGSIZE,
				"the list is longer than %zu MiB; list it with a command",
				LIMIT_LISTING_BYTES >> 20);
	}
	return 0;
}

static int gather_entries(struct http_req *req, struct link_stream *s, struct buf *text,
	struct err *err)
{
	for (;;) {
		struct link_event ev;
		bool over;
		int r = link_next(s, &ev, clock_mono_ms() + STALL_MS, req->client_fd, err);

		if (r == 0)
			return err_stalled(err);
		if (r < 0)
			return r;
		r = append_entries(text, json_object_get(ev.json, "entries"), err);
		over = ev.type == LINK_CLOSE;
		link_event_done(s, &ev);
		if (r < 0 || over)
			return r;
	}
}

int h_fs_dir(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_buf_ struct buf text = buf_init(LIMIT_LISTING_BYTES);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	_cleanup_stream_ struct link_stream *s = NULL;
	const char *path = url_query(&req->url, "path");
	json_t *name;
	int r;

	if (!path)
		path = "/";
	r = fs_check_path(path, "path", err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r == 0)
		r = sandbox_open(sb, json_pack("{s:s, s:s}", "op", "list", "path", path), &s, err);
	if (r < 0)
		return r;
	name = json_string(path);
	if (buf_append(&text, "{\"path\":", 8) < 0 ||
		json_dump_callback(name, buf_sink, &text, JSON_ENCODE_ANY) < 0 ||
		buf_append(&text, ",\"entries\":[", 12) < 0)
		r = err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	json_decref(name);
	if (r == 0)
		r = gather_entries(req, s, &text, err);
	if (r == -EPIPE)
		r = sandbox_explain(sb, err);
	if (r == 0 && buf_append(&text, "]}", 2) < 0)
		r = err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return r < 0 ? r : http_resp_text(resp, 200, "application/json", &text, err);
}

int h_fs_remove(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *path;
	int r = fs_read_target(req, &sb, &path, err);

	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s, s:s}", "op", "remove", "path", path),
			CALL_TIMEOUT_MS, req->client_fd, NULL, err);
	return r < 0 ? r : http_resp_empty(resp, 204);
}

int h_fs_mkdir(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *path = NULL;
	int r = json_in_str(req->body, "path", LIMIT_PATH_BYTES, &path, err);

	if (r == 0)
		r = fs_check_path(path, "path", err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r == 0)
		r = sandbox_call(sb, json_pack("{s:s, s:s}", "op", "mkdir", "path", path),
			CALL_TIMEOUT_MS, req->client_fd, NULL, err);
	return r < 0 ? r : http_resp_json(resp, 200, json_pack("{s:s}", "path", path), err);
}

int h_fs_move(struct http_req *req, struct http_resp *resp, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const char *from = NULL, *to = NULL;
	int r = json_in_str(req->body, "from", LIMIT_PATH_BYTES, &from, err);

	if (r == 0)
		r = json_in_str(req->body, "to", LIMIT_PATH_BYTES, &to, err);
	if (r == 0)
		r = fs_check_path(from, "from", err);
	if (r == 0)
		r = fs_check_path(to, "to", err);
	if (r == 0)
		r = http_req_sandbox(req, &sb, err);
	if (r == 0)
		r = sandbox_call(sb,
			json_pack("{s:s, s:s, s:s}", "op", "move", "path", from, "to", to),
			CALL_TIMEOUT_MS, req->client_fd, NULL, err);
	return r < 0 ? r : http_resp_json(resp, 200, json_pack("{s:s}", "path", to), err);
}
