/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool gave, as the protocol's content. */
#include "mcp/content.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"

/* A table of a notebook is smaller; what is larger brings its program along (plotly), and tells a model nothing. */
#define HTML_BYTES_MAX KIB(256)

/* ---- items ---- */

static void add(struct mcp_content *c, json_t *item)
{
	(void)json_array_append_new(c->items, item);
}

/* What ran may have written NUL bytes, too. */
static void add_bytes(struct mcp_content *c, const char *text, size_t len)
{
	add(c, json_pack("{s:s, s:o}", "type", "text", "text", json_stringn(text, len)));
}

void mcp_content_add_text(struct mcp_content *c, const char *text)
{
	add_bytes(c, text, strlen(text));
}

static void add_output(struct mcp_content *c, const struct buf *text)
{
	if (text->len)
		add_bytes(c, text->data, text->len);
	else
		mcp_content_add_text(c, "[no output]");
}

static void add_image(struct mcp_content *c, const char *mime, json_t *data)
{
	add(c, json_pack("{s:s, s:s, s:o}", "type", "image", "mimeType", mime, "data", data));
}

/* For the user to look at: the model has it as text. */
static void add_resource(struct mcp_content *c, json_t *resource)
{
	add(c,
		json_pack("{s:s, s:o, s:{s:[s]}}", "type", "resource", "resource", resource,
			"annotations", "audience", "user"));
}

json_t *mcp_content_result(struct mcp_content *c)
{
	json_t *result = json_pack("{s:O, s:b, s:O*}", "content", c->items, "isError", c->is_error,
		"structuredContent", c->structured);

	mcp_content_done(c);
	return result;
}

void mcp_content_done(struct mcp_content *c)
{
	json_decref(c->items);
	json_decref(c->structured);
	*c = (struct mcp_content){0};
}

static struct mcp_content content_new(json_t *structured)
{
	return (struct mcp_content){.items = json_array(), .structured = structured};
}

struct mcp_content mcp_content_failure(const char *text)
{
	struct mcp_content c = content_new(NULL);

	c.is_error = true;
	mcp_content_add_text(&c, text);
	return c;
}

struct mcp_content mcp_content_json(json_t *answer)
{
	struct mcp_content c = content_new(answer);
	_cleanup_free_ char *text = json_dumps(answer, JSON_COMPACT);

	mcp_content_add_text(&c, text ? text : "out of memory");
	return c;
}

/* ---- what ran ---- */

/* Adds a part of the text, which begins on a line of its own. What is over the bound is left out: the streams have their own. */
static void add_part(struct buf *text, json_t *part)
{
	size_t len = json_string_length(part);

	if (len == 0)
		return;
	if (text->len && text->data[text->len - 1] != '\n')
		(void)buf_append(text, "\n", 1);
	(void)buf_append(text, json_string_value(part), len);
}

static void add_line(struct buf *text, const char *line)
{
	json_t *part = json_string(line);

	add_part(text, part);
	json_decref(part);
}

static bool is_true(const json_t *answer, const char *key)
{
	return json_is_true(json_object_get(answer, key));
}

/* Base64 without the blanks that a guest may put between; NULL where it is none. */
static json_t *clean_base64(const json_t *value)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *s = json_string_value(value);
	size_t n = 0, body;
	_cleanup_free_ char *text = s ? malloc(strlen(s) + 1) : NULL;

	if (!text)
		return NULL;
	for (; *s; s++) {
		if (!strchr(" \t\r\n", *s))
			text[n++] = *s;
	}
	text[n] = '\0';
	body = strspn(text, alphabet);
	if (n == 0 || n % 4 != 0 || n - body > 2 || strspn(text + body, "=") != n - body)
		return NULL;
	return json_stringn(text, n);
}

static bool take_image(struct mcp_content *c, const json_t *bundle)
{
	static const char *const types[] = {"image/png", "image/jpeg"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		json_t *data = clean_base64(json_object_get(bundle, types[i]));

		if (data) {
			add_image(c, types[i], data);
			return true;
		}
	}
	return false;
}

/* What a person sees better than as text: a table, a drawing. */
static bool take_page(struct mcp_content *c, const json_t *bundle, const char *uri)
{
	static const char *const types[] = {"text/html", "image/svg+xml"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		json_t *page = json_object_get(bundle, types[i]);

		if (json_is_string(page) && json_string_length(page) <= HTML_BYTES_MAX) {
			add_resource(c,
				json_pack("{s:s, s:s, s:O}", "uri", uri, "mimeType", types[i],
					"text", page));
			return true;
		}
	}
	return false;
}

/* The plainest words for it. */
static json_t *text_of(const json_t *bundle)
{
	static const char *const types[] = {"text/plain", "text/markdown", "text/latex",
		"application/json"};
	json_t *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(types) && !text; i++)
		text = json_object_get(bundle, types[i]);
	return text;
}

static void take_result(struct mcp_content *c, struct buf *text, const json_t *bundle,
	const char *uri)
{
	bool image = take_image(c, bundle);
	bool page = !image && take_page(c, bundle, uri);
	json_t *plain = text_of(bundle);

	/* The text of an image is "<Figure size 640x480 with 1 Axes>". */
	if (plain && !image)
		add_part(text, plain);
	else if (!plain && !image)
		add_line(text, page ? "[a page for the user]" : "[a value without a text]");
}

struct mcp_content mcp_content_cell(json_t *answer, const char *sandbox)
{
	struct mcp_content c = content_new(answer), shown = content_new(NULL);
	_cleanup_buf_ struct buf text = buf_init(LIMIT_ANSWER_BYTES),
				 values = buf_init(LIMIT_ANSWER_BYTES);
	json_int_t count = json_integer_value(json_object_get(answer, "execution_count"));
	const char *status;
	json_t *bundle;
	size_t i;

	json_array_foreach(json_object_get(answer, "results"), i, bundle) {
		char uri[128];

		(void)snprintf(uri, sizeof(uri), "result://%s/%lld/%zu", sandbox, (long long)count,
			i);
		take_result(&shown, &values, bundle, uri);
	}
	(void)json_object_del(answer, "results"); /* the images are there already */
	(void)json_object_set_new(answer, "text",
		json_stringn(values.len ? values.data : "", values.len));
	status = json_string_value(json_object_get(answer, "status"));
	c.is_error = !status || strcmp(status, "ok") != 0;
	add_part(&text, json_object_get(answer, "stdout"));
	add_part(&text, json_object_get(answer, "stderr"));
	add_part(&text, json_object_get(answer, "text"));
	add_part(&text, json_object_get(answer, "error"));
	if (status && strcmp(status, "timeout") == 0)
		add_line(&text, "[stopped at its time limit]");
	if (is_true(answer, "state_lost"))
		add_line(&text, "[the kernel began anew: its variables are gone]");
	add_output(&c, &text);
	(void)json_array_extend(c.items, shown.items);
	mcp_content_done(&shown);
	return c;
}

struct mcp_content mcp_content_command(json_t *answer)
{
	struct mcp_content c = content_new(answer);
	_cleanup_buf_ struct buf text = buf_init(LIMIT_ANSWER_BYTES);
	json_int_t code = json_integer_value(json_object_get(answer, "exit_code"));
	char line[64];

	add_part(&text, json_object_get(answer, "stdout"));
	add_part(&text, json_object_get(answer, "stderr"));
	(void)snprintf(line, sizeof(line), "[exit code %lld]", (long long)code);
	if (code != 0)
		add_line(&text, line);
	c.is_error = is_true(answer, "timed_out");
	if (c.is_error)
		add_line(&text, "[stopped at its time limit]");
	add_output(&c, &text);
	return c;
}

/* ---- files ---- */

/* By its first bytes: a name proves nothing. */
static const char *image_type(const char *data, size_t len)
{
	if (len >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
		return "image/png";
	return len >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0 ? "image/jpeg" : NULL;
}

static bool is_text(const char *data, size_t len)
{
	return !memchr(data, '\0', len) && str_is_utf8(data, len);
}

static json_t *base64_of(const char *data, size_t len)
{
	_cleanup_free_ char *text = malloc(BASE64_LENGTH(len) + 1);

	if (!text)
		return NULL;
	base64_encode(text, data, len);
	return json_string(text);
}

json_t *mcp_resource(const char *uri, const char *data, size_t len)
{
	const char *type = image_type(data, len);

	if (is_text(data, len))
		return json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType", "text/plain", "text",
			data, len);
	return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType",
		type ? type : "application/octet-stream", "blob", base64_of(data, len));
}

struct mcp_content mcp_content_file(const char *sandbox, const char *path, const char *data,
	size_t len)
{
	struct mcp_content c =
		content_new(json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)len));
	_cleanup_free_ char *uri = mcp_file_uri(sandbox, path);
	const char *type = image_type(data, len);

	if (is_text(data, len)) {
		json_t *text = json_stringn(data, len);

		add(&c, json_pack("{s:s, s:O}", "type", "text", "text", text));
		(void)json_object_set_new(c.structured, "text", text);
	} else if (type) {
		add_image(&c, type, base64_of(data, len));
	} else {
		add(&c,
			json_pack("{s:s, s:o}", "type", "resource", "resource",
				mcp_resource(uri, data, len)));
	}
	return c;
}

/* ---- addresses ---- */

static const char scheme[] = "sandbox://";

char *mcp_file_uri(const char *sandbox, const char *path)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	char *uri = malloc(sizeof(scheme) + strlen(sandbox) + 3 * strlen(path)), *at;

	if (!uri)
		abort();
	at = stpcpy(stpcpy(uri, scheme), sandbox);
	for (; *path; path++) {
		if (strchr(plain, *path))
			*at++ = *path;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*path);
	}
	*at = '\0';
	return uri;
}

static int decode(char *s)
{
	char *to = s;

	for (; *s; s++) {
		char hex[3] = {0};
		uint64_t byte;

		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		(void)snprintf(hex, sizeof(hex), "%.2s", s + 1);
		if (strlen(hex) != 2 || parse_hex(hex, 1, UINT8_MAX, &byte) < 0)
			return -EINVAL;
		*to++ = (char)byte;
		s += 2;
	}
	*to = '\0';
	return 0;
}

int mcp_file_uri_parse(const char *uri, char **ret_sandbox, char **ret_path)
{
	const char *id = uri + sizeof(scheme) - 1, *slash;
	_cleanup_free_ char *path = NULL, *sandbox = NULL;

	if (!str_starts_with(uri, scheme))
		return -EINVAL;
	slash = strchr(id, '/');
	if (!slash || slash == id)
		return -EINVAL;
	sandbox = strndup(id, (size_t)(slash - id));
	path = strdup(slash);
	if (!sandbox || !path)
		abort();
	if (decode(path) < 0 || !str_is_utf8(path, strlen(path)))
		return -EINVAL;
	*ret_sandbox = steal_ptr(&sandbox);
	*ret_path = steal_ptr(&path);
	return 0;
}
