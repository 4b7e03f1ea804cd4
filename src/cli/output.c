/* SPDX-License-Identifier: Apache-2.0 */
/* What code and commands in a sandbox give back: output, charts, exit status. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/limits.h"
#include "base/parse.h"
#include "cli/term.h"
#include "cli/text.h"

enum {
	EVENT_MAX_BYTES = 2 * LIMIT_EVENT_BYTES, /* escaped as JSON */
	STATUS_OF_SIGNAL = 128,                  /* as shells have it */
};

static const struct image_kind {
	const char *mime;
	const char *suffix;
	bool base64;
} image_kinds[] = {
	{"image/png", "png", true},
	{"image/jpeg", "jpg", true},
	{"image/svg+xml", "svg", false},
};

struct output output_init(const char *chart_dir)
{
	return (struct output){.sse = sse_init(EVENT_MAX_BYTES), .chart_dir = chart_dir};
}

void output_done(struct output *out)
{
	sse_done(&out->sse);
}

/* The argument of sys.exit(): a status, or else a message. */
static bool exit_status(const char *value, int *ret)
{
	int64_t n = 0;

	if (value && *value && strcmp(value, "None") != 0 &&
		parse_i64(value, INT32_MIN, INT32_MAX, &n) < 0)
		return false;
	*ret = (int)(n & 0xFF);
	return true;
}

int output_status(const json_t *answer)
{
	const char *name = json_string_value(json_object_get(answer, "error_name"));
	const char *value = json_string_value(json_object_get(answer, "error_value"));
	json_int_t code = json_integer_value(json_object_get(answer, "exit_code"));
	json_int_t signal = json_integer_value(json_object_get(answer, "signal"));
	int status = 1; /* sys.exit("why") */

	if (name && strcmp(name, "SystemExit") == 0) {
		(void)exit_status(value, &status); /* else it stays */
		return status;
	}
	return signal > 0 ? STATUS_OF_SIGNAL + (int)(signal & 0x7F) : (int)(code & 0xFF);
}

static int write_file(const char *path, const char *data, size_t len, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_set_errno(err, -errno, "cannot create %s", path);
	if (term_write(fd, data, len, err) < 0)
		return err_wrap(err, "%s", path);
	return 0;
}

/* -EINVAL where it is no base64; libraries may have broken it into lines (RFC 2045). */
static int decode_image(const char *text, size_t len, struct buf *image)
{
	_cleanup_free_ char *compact = xcalloc(len + 1, 1);
	size_t n = 0, decoded;
	int r;

	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\n' && text[i] != '\r')
			compact[n++] = text[i];
	}
	r = buf_reserve(image, n);
	if (r == 0)
		r = base64_decode(compact, n, image->data, image->cap, &decoded);
	if (r == 0)
		image->len = decoded;
	return r;
}

static const struct image_kind *find_image(const json_t *bundle)
{
	for (size_t i = 0; i < ARRAY_SIZE(image_kinds); i++) {
		if (json_is_string(json_object_get(bundle, image_kinds[i].mime)))
			return &image_kinds[i];
	}
	return NULL;
}

int output_save(struct output *out, const json_t *bundle, struct err *err)
{
	_cleanup_buf_ struct buf image = buf_init(EVENT_MAX_BYTES);
	const struct image_kind *kind = find_image(bundle);
	const json_t *value = kind ? json_object_get(bundle, kind->mime) : NULL;
	const char *data = json_string_value(value);
	size_t len = json_string_length(value);
	_cleanup_free_ char *path = NULL;
	int r;

	if (!kind)
		return 0;
	if (!out->chart_dir) {
		out->n_unsaved++;
		return 0;
	}
	if (kind->base64) {
		if (decode_image(data, len, &image) < 0) {
			term_say("a chart was not saved: its data is damaged");
			return 0;
		}
		data = image.data;
		len = image.len;
	}
	path = text_format("%s/chart-%u.%s", out->chart_dir, out->n_saved + 1, kind->suffix);
	r = write_file(path, data, len, err);
	if (r < 0)
		return r;
	out->n_saved++;
	term_say("saved %s", path);
	return 0;
}

static int put_text(struct output *out, const json_t *text, struct err *err)
{
	const char *data = json_string_value(text);
	size_t len = json_string_length(text);
	int r;

	if (len == 0)
		return 0;
	r = term_write(STDOUT_FILENO, data, len, err);
	if (r == 0)
		out->mid_line = data[len - 1] != '\n';
	return r;
}

static int end_line(struct output *out, struct err *err)
{
	if (!out->mid_line)
		return 0;
	out->mid_line = false;
	return term_write(STDOUT_FILENO, "\n", 1, err);
}

/* A chart's text is only its repr: not shown when the chart itself is saved. */
static int on_result(struct output *out, const json_t *bundle, struct err *err)
{
	int r = end_line(out, err);

	if (r == 0 && !(out->chart_dir && find_image(bundle)))
		r = put_text(out, json_object_get(bundle, "text/plain"), err);
	if (r == 0)
		r = end_line(out, err);
	return r < 0 ? r : output_save(out, bundle, err);
}

static int put_error_text(const char *text, size_t len, struct err *err)
{
	int r = term_write(STDERR_FILENO, text, len, err);

	if (r == 0 && len && text[len - 1] != '\n')
		r = term_write(STDERR_FILENO, "\n", 1, err);
	return r;
}

/* With a code: why the stream ends here. Without: the exception of a cell, whose end comes next. */
static int on_error(struct output *out, const json_t *data, struct err *err)
{
	const char *text = json_string_value(json_object_get(data, "error"));
	const char *code = json_string_value(json_object_get(data, "code"));
	const char *name = json_string_value(json_object_get(data, "error_name"));
	const char *value = json_string_value(json_object_get(data, "error_value"));
	int status;

	if (code) {
		_cleanup_free_ char *clean = text_clean(text ? text : "");

		return err_set(err, err_from_code(code), -EIO, "%s", clean);
	}
	if (name && strcmp(name, "SystemExit") == 0) {
		out->exited = true;
		out->status = output_status(data);
		text = exit_status(value, &status) ? NULL : value;
	}
	return text ? put_error_text(text, strlen(text), err) : 0;
}

static void on_exit_event(struct output *out, const json_t *data)
{
	out->ended = true;
	if (!out->exited)
		out->status = output_status(data);
}

static int on_event(const struct sse_event *event, void *user)
{
	struct output *out = user;
	json_t *data = json_loadb(event->data, event->len, JSON_ALLOW_NUL, NULL);
	const json_t *chunk = json_object_get(data, "chunk");
	int r = 0;

	if (!json_is_object(data))
		r = err_set(out->err, ERR_INTERNAL, -EPROTO, "an event came that is not JSON");
	else if (strcmp(event->name, "stdout") == 0)
		r = put_text(out, chunk, out->err);
	else if (strcmp(event->name, "stderr") == 0)
		r = term_write(STDERR_FILENO, json_string_value(chunk), json_string_length(chunk),
			out->err);
	else if (strcmp(event->name, "result") == 0)
		r = on_result(out, json_object_get(data, "data"), out->err);
	else if (strcmp(event->name, "error") == 0)
		r = on_error(out, data, out->err);
	else if (strcmp(event->name, "exit") == 0)
		on_exit_event(out, data);
	json_decref(data);
	return r;
}

int output_feed(const char *data, size_t len, void *user, struct err *err)
{
	struct output *out = user;
	int r;

	out->err = err;
	r = sse_feed(&out->sse, data, len, on_event, out);
	if (r == -EMSGSIZE || r == -ENOMEM)
		return err_set_errno(err, r, "an event from the daemon is too large");
	return r;
}

int output_end(struct output *out, struct err *err)
{
	if (out->n_unsaved)
		term_say("%u chart%s not saved: use --out DIR", out->n_unsaved,
			out->n_unsaved == 1 ? " was" : "s were");
	if (!out->ended)
		return err_set(err, ERR_INTERNAL, -EPROTO,
			"the daemon's answer ended before the code did");
	return out->status;
}
