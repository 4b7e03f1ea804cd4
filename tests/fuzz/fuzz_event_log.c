/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a sandbox's events: read within its bounds, in order, and read the same once it was written anew. */
#include "base/fs.h"
#include "core/event_log.h"

static char root[] = "/tmp/pandastack-fuzz.XXXXXX";
static char *path;

static void clean_up(void)
{
	(void)fs_remove_tree(root, NULL);
	free(path);
}

/* All that there is; the caller's. */
static json_t *read_all(void)
{
	struct event_log *log = event_log_new(root);
	json_t *list;

	event_log_add(log, "last", NULL);
	list = event_log_read(log, -1, SIZE_MAX, NULL);
	event_log_free(log);
	return list;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *first, *second, *e;
	int64_t before = -1;
	size_t i;

	if (!path) {
		if (!mkdtemp(root) || atexit(clean_up) != 0)
			abort();
		path = fs_join(root, "events");
	}
	if (fs_write_atomic(path, data, size, 0600, NULL) < 0)
		abort();
	first = read_all();
	json_array_foreach(first, i, e) {
		if (json_integer_value(json_object_get(e, "time_ms")) <= before)
			__builtin_trap();
		before = json_integer_value(json_object_get(e, "time_ms"));
	}
	second = read_all();
	i = json_array_size(first);
	if (i == 0 || i > EVENT_LOG_EVENTS_MAX)
		__builtin_trap();
	if (json_array_size(second) != MIN(i + 1, (size_t)EVENT_LOG_EVENTS_MAX) ||
		!json_equal(json_array_get(first, i - 1),
			json_array_get(second, json_array_size(second) - 2)))
		__builtin_trap();
	json_decref(first);
	json_decref(second);
	return 0;
}
