/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell of code gave: gathered from the stream of its run into one answer. */
#include "http/cell.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"

/* What a result costs beside its text, so that a flood of empty ones ends too. */
enum { RESULT_OVERHEAD_BYTES = 128, FILES_CHANGED_MAX = 1024 };

void cell_init(struct cell *cell, const struct http_limits *limits)
{
	*cell = (struct cell){
		.streams = {capture_init(limits->output_bytes), capture_init(limits->output_bytes)},
		.results_max = limits->results_bytes,
		.results = json_array(),
		.display_ids = json_array(),
		.error = json_object(),
	};
}

void cell_done(struct cell *cell)
{
	capture_done(&cell->streams[0]);
	capture_done(&cell->streams[1]);
	json_decref(cell->results);
	json_decref(cell->display_ids);
	json_decref(cell->error);
	*cell = (struct cell){0};
}

static void clear(struct cell *cell)
{
	capture_clear(&cell->streams[0]);
	capture_clear(&cell->streams[1]);
	(void)json_array_clear(cell->results); /* fails for what is no array */
	(void)json_array_clear(cell->display_ids);
	cell->results_bytes = 0;
	cell->cut = false;
	cell->clear_next = false;
}

void cell_output(struct cell *cell, bool is_err, const void *data, size_t len)
{
	if (cell->clear_next)
		clear(cell);
	capture_push(&cell->streams[is_err], data, len);
}

json_t *cell_bundle(const json_t *data)
{
	json_t *bundle = json_object(), *value;
	const char *mime;

	json_object_foreach((json_t *)(uintptr_t)data, mime, value) {
		char *text;

		if (!strchr(mime, '/') || json_is_null(value))
			continue; /* clients take every key for a MIME type, and null for "None" */
		if (json_is_string(value)) {
			(void)json_object_set(bundle, mime, value);
			continue;
		}
		text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		if (text)
			(void)json_object_set_new(bundle, mime, json_string(text));
		free(text);
	}
	return bundle;
}

static size_t bundle_bytes(json_t *bundle)
{
	size_t n = RESULT_OVERHEAD_BYTES;
	json_t *value;
	const char *mime;

	json_object_foreach(bundle, mime, value)
		n += strlen(mime) + json_string_length(value);
	return n;
}

/* Where the display of that name is, or the end. */
static size_t find_display(const struct cell *cell, const char *id)
{
	size_t i;
	json_t *v;

	json_array_foreach(cell->display_ids, i, v) {
		const char *other = json_string_value(v);

		if (other && strcmp(other, id) == 0)
			return i;
	}
	return json_array_size(cell->results);
}

static void add_result(struct cell *cell, const json_t *event)
{
	json_t *bundle = cell_bundle(json_object_get(event, "data"));
	json_t *id = json_object_get(event, "display_id");
	size_t at = json_array_size(cell->results);
	size_t bytes = bundle_bytes(bundle) + json_string_length(id);

	if (json_is_true(json_object_get(event, "update")) && json_is_string(id))
		at = find_display(cell, json_string_value(id));
	if (bytes > cell->results_max - cell->results_bytes) {
		cell->cut = true;
		json_decref(bundle);
		return;
	}
	if (at < json_array_size(cell->results)) {
		cell->results_bytes -=
			bundle_bytes(json_array_get(cell->results, at)) + json_string_length(id);
		cell->results_bytes += bytes;
		(void)json_array_set_new(cell->results, at, bundle);
		return;
	}
	cell->results_bytes += bytes;
	(void)json_array_append_new(cell->results, bundle);
	(void)json_array_append_new(cell->display_ids,
		json_is_string(id) ? json_incref(id) : json_null());
}

/* What the API tells of an error event, as far as it is of the right type. */
static json_t *error_members(const json_t *event)
{
	static const struct {
		const char *from, *to;
		json_type type;
	} members[] = {
		{"traceback", "error", JSON_STRING},
		{"name", "error_name", JSON_STRING},
		{"value", "error_value", JSON_STRING},
		{"line", "error_line", JSON_INTEGER},
	};
	json_t *error = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(event, members[i].from);

		if (v && json_typeof(v) == members[i].type)
			(void)json_object_set(error, members[i].to, v);
	}
	return error;
}

/* Nothing else of the event stays, and no text without a bound. */
static void keep_error(struct cell *cell, const json_t *event)
{
	const char *key;
	json_t *v;

	json_decref(cell->error);
	cell->error = error_members(event);
	json_object_foreach(cell->error, key, v) {
		const char *text = json_string_value(v);
		size_t len = json_string_length(v);

		if (len <= cell->results_max)
			continue;
		len = str_utf8_floor(text, cell->results_max);
		(void)json_object_set_new(cell->error, key, json_stringn(text, len));
		cell->cut = true;
	}
}

void cell_event(struct cell *cell, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	if (!type)
		return;
	if (strcmp(type, "clear_output") == 0) {
		if (json_is_true(json_object_get(event, "wait")))
			cell->clear_next = true;
		else
			clear(cell);
		return;
	}
	if (strcmp(type, "dropped") == 0)
		cell->cut = true;
	if (strcmp(type, "result") == 0) {
		if (cell->clear_next)
			clear(cell);
		add_result(cell, event);
	}
	if (strcmp(type, "error") == 0)
		keep_error(cell, event);
}

const char *cell_status(const json_t *ok)
{
	const char *status = json_string_value(json_object_get(ok, "status"));

	return status ? status : "died";
}

/* Copies members of the right type; what the guest made of another is left out. */
static void copy_facts(json_t *dst, const json_t *ok)
{
	static const struct {
		const char *key;
		json_type type;
	} facts[] = {
		{"execution_count", JSON_INTEGER},
		{"duration_ms", JSON_INTEGER},
		{"signal", JSON_INTEGER},
		{"reason", JSON_STRING},
		{"kernel_restarted", JSON_TRUE},
		{"state_lost", JSON_TRUE},
		{"files_changed_truncated", JSON_TRUE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		json_t *v = json_object_get(ok, facts[i].key);

		if (v && json_typeof(v) == facts[i].type)
			(void)json_object_set(dst, facts[i].key, v);
	}
}

/* The paths that the guest names, as far as they are text. */
static json_t *changed_files(const json_t *paths)
{
	json_t *list = json_array(), *path;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)paths, i, path) {
		if (json_is_string(path) && i < FILES_CHANGED_MAX)
			(void)json_array_append(list, path);
	}
	return list;
}

json_t *cell_facts(const json_t *ok)
{
	bool good = strcmp(cell_status(ok), "ok") == 0;
	const json_t *files = json_object_get(ok, "files_changed");
	json_t *code = json_object_get(ok, "exit_code"), *facts;

	code = json_is_integer(code) && !good ? json_incref(code) : json_integer(!good);
	facts = json_pack("{s:s, s:O, s:o, s:b, s:b}", "status", cell_status(ok), "exit", code,
		"exit_code", code, "kernel_restarted", 0, "state_lost", 0);
	if (!facts)
		return NULL;
	copy_facts(facts, ok);
	if (json_is_array(files))
		(void)json_object_set_new(facts, "files_changed", changed_files(files));
	return facts;
}

/* The words of an error that the runtime had no time to tell. */
static const char *plain_error(const json_t *ok)
{
	const char *reason = json_string_value(json_object_get(ok, "reason"));
	const char *status = cell_status(ok);

	if (reason)
		return reason;
	if (strcmp(status, "interrupted") == 0)
		return "KeyboardInterrupt: the cell was interrupted";
	if (strcmp(status, "oom") == 0)
		return "the kernel was killed: the sandbox's memory is exhausted";
	if (strcmp(status, "timeout") == 0)
		return "the cell was stopped at its time limit";
	if (strcmp(status, "error") == 0)
		return "the cell failed";
	return "the kernel died";
}

static json_t *explain(json_t *error, const json_t *ok)
{
	if (json_string_length(json_object_get(error, "error")) == 0)
		(void)json_object_set_new(error, "error", json_string(plain_error(ok)));
	return error;
}

json_t *cell_error(const json_t *event, const json_t *ok)
{
	return explain(error_members(event), ok);
}

json_t *cell_answer(struct cell *cell, const json_t *ok)
{
	json_t *answer = cell_facts(ok);
	bool cut;

	if (!answer)
		return NULL;
	(void)json_object_set_new(answer, "stdout", capture_finish(&cell->streams[0]));
	(void)json_object_set_new(answer, "stderr", capture_finish(&cell->streams[1]));
	cut = cell->cut || cell->streams[0].cut || cell->streams[1].cut;
	(void)json_object_set_new(answer, "truncated", json_boolean(cut));
	if (cut)
		(void)json_object_set_new(answer, "output_bytes",
			json_pack("{s:I, s:I}", "stdout", (json_int_t)cell->streams[0].total,
				"stderr", (json_int_t)cell->streams[1].total));
	(void)json_object_set(answer, "results", cell->results);
	if (strcmp(cell_status(ok), "ok") != 0)
		(void)json_object_update(answer, explain(cell->error, ok));
	return answer;
}
