/* SPDX-License-Identifier: Apache-2.0 */
/* The log of what happened to a sandbox: order, bounds, the file, followers. */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core/event_log.h"
#include "scratch.h"

static int64_t time_of(const json_t *e)
{
	return json_integer_value(json_object_get(e, "time_ms"));
}

static const char *type_of(const json_t *e)
{
	return json_string_value(json_object_get(e, "type"));
}

static void add(struct event_log *log, int number)
{
	char type[16];

	(void)snprintf(type, sizeof(type), "t%d", number);
	event_log_add(log, type, json_pack("{s:i}", "number", number));
}

/* The log holds exactly the events from..to. */
static void holds(struct event_log *log, int from, int to)
{
	json_t *list = event_log_read(log, -1, SIZE_MAX, NULL), *e;
	int64_t before = -1;
	size_t i;

	assert_int_equal(json_array_size(list), to - from + 1);
	json_array_foreach(list, i, e) {
		json_t *number = json_object_get(json_object_get(e, "payload"), "number");
		char type[16];

		(void)snprintf(type, sizeof(type), "t%d", from + (int)i);
		assert_string_equal(type_of(e), type);
		assert_int_equal(json_integer_value(number), from + (int)i);
		assert_true(time_of(e) > before);
		before = time_of(e);
	}
	json_decref(list);
}

static size_t count_lines(const char *dir)
{
	_cleanup_free_ char *path = fs_join(dir, "events"), *text = NULL;
	size_t n = 0;

	assert_int_equal(fs_read(path, 4 << 20, &text, NULL, NULL), 0);
	for (const char *p = text; *p; p++)
		n += *p == '\n';
	return n;
}

static void test_order(void **state)
{
	struct event_log *log = event_log_new(*state);
	int64_t start = clock_real_ms();
	json_t *list;

	holds(log, 1, 0);
	for (int i = 0; i < 5; i++)
		add(log, i);
	holds(log, 0, 4);
	list = event_log_read(log, -1, 2, NULL);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(type_of(json_array_get(list, 0)), "t3");
	assert_string_equal(type_of(json_array_get(list, 1)), "t4");
	assert_true(time_of(json_array_get(list, 1)) >= start);
	assert_true(time_of(json_array_get(list, 1)) <= clock_real_ms() + 5);
	start = time_of(json_array_get(list, 0));
	json_decref(list);
	list = event_log_read(log, start, SIZE_MAX, NULL);
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(type_of(json_array_get(list, 0)), "t4");
	json_decref(list);
	list = event_log_read(log, -1, 0, NULL);
	assert_int_equal(json_array_size(list), 0);
	json_decref(list);
	event_log_free(log);
}

static void test_bounds(void **state)
{
	enum { MANY = 5 * EVENT_LOG_EVENTS_MAX + 3 };
	struct event_log *log = event_log_new(*state);

	for (int i = 0; i < MANY; i++) {
		add(log, i);
		assert_in_range(count_lines(*state), 1, 2 * EVENT_LOG_EVENTS_MAX);
	}
	holds(log, MANY - EVENT_LOG_EVENTS_MAX, MANY - 1);
	event_log_free(log);
	log = event_log_new(*state);
	holds(log, MANY - EVENT_LOG_EVENTS_MAX, MANY - 1);
	event_log_free(log);
}

static void test_large_payload(void **state)
{
	struct event_log *log = event_log_new(*state);
	char text[4000];
	json_t *list, *payload = json_object();

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)json_object_set_new(payload, "text", json_string(text));
	event_log_add(log, "big", json_incref(payload));
	assert_int_equal(json_object_size(payload), 1); /* the caller's is not touched */
	json_decref(payload);
	event_log_add(log, "none", NULL);
	list = event_log_read(log, -1, SIZE_MAX, NULL);
	assert_true(json_is_true(
		json_object_get(json_object_get(json_array_get(list, 0), "payload"), "truncated")));
	payload = json_object_get(json_array_get(list, 1), "payload");
	assert_true(json_is_object(payload));
	assert_int_equal(json_object_size(payload), 0);
	json_decref(list);
	event_log_free(log);
}

static void test_next_daemon(void **state)
{
	struct event_log *log = event_log_new(*state);

	add(log, 0);
	add(log, 1);
	event_log_free(log);
	log = event_log_new(*state);
	holds(log, 0, 1);
	add(log, 2);
	holds(log, 0, 2);
	event_log_free(log);
	log = event_log_new(*state);
	holds(log, 0, 2);
	event_log_free(log);
}

#define EVENT(n, time) \
	"{\"time_ms\":" #time ",\"type\":\"t" #n "\",\"payload\":{\"number\":" #n "}}"

/* What is whole stays, and what comes later stays too. */
static void test_damaged_file(void **state)
{
	static const char *const files[] = {
		EVENT(0, 1) "\n" EVENT(1, 2) "\n{\"time_ms\":3,\"ty",
		EVENT(0, 1) "\nnonsense\n" EVENT(1, 2) "\n",
		"\n\n" EVENT(0, 1) "\n[]\n" EVENT(1, 2) "\n",
		EVENT(0, 1) "\n" EVENT(9, 1) "\n" EVENT(1, 2) "\n",
		EVENT(0, 1) "\n" EVENT(9, -5) "\n" EVENT(1, 2) "\n" EVENT(9,
			9223372036854775807) "\n",
		EVENT(0, 1) "\n{\"time_ms\":2,\"type\":7,\"payload\":{}}\n" EVENT(1, 2) "\n",
		EVENT(0, 1) "\n{\"time_ms\":2,\"type\":\"a\",\"payload\":[]}\n" EVENT(1, 2) "\n",
		EVENT(0, 1) "\n{\"time_ms\":2,\"type\":\"a\",\"type\":\"b\",\"payload\":{}}\n" EVENT(
			1, 2),
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		bool cut = i == ARRAY_SIZE(files) - 1;
		struct event_log *log;

		scratch_write(*state, "events", files[i]);
		log = event_log_new(*state);
		holds(log, 0, cut ? 0 : 1);
		add(log, cut ? 1 : 2);
		event_log_free(log);
		log = event_log_new(*state);
		holds(log, 0, cut ? 1 : 2);
		assert_int_equal(count_lines(*state), cut ? 2 : 3);
		event_log_free(log);
	}
}

/* A file that is too long, a FIFO, a link to elsewhere: none is followed, and all are replaced. */
static void test_hostile_file(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "events"), *other = fs_join(*state, "other");
	struct event_log *log;
	struct stat st;

	for (int i = 0; i < 3; i++) {
		(void)unlink(path);
		scratch_write(*state, "other", "other\n");
		if (i == 0)
			assert_int_equal(mkfifo(path, 0600), 0);
		else if (i == 1)
			assert_int_equal(symlink(other, path), 0);
		else
			assert_int_equal(truncate(other, 8 << 20) | rename(other, path), 0);
		log = event_log_new(*state);
		holds(log, 1, 0);
		add(log, 0);
		assert_int_equal(lstat(path, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		assert_int_equal(count_lines(*state), 1);
		event_log_free(log);
	}
}

static void test_no_folder(void **state)
{
	_cleanup_free_ char *dir = fs_join(*state, "later");
	struct event_log *log = event_log_new(dir);

	add(log, 0);
	holds(log, 0, 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	add(log, 1);
	event_log_free(log);
	log = event_log_new(dir);
	holds(log, 0, 1);
	event_log_free(log);
}

static void test_follow(void **state)
{
	struct event_log *log = event_log_new(*state);
	struct follower f, g;
	bool closed = true;

	assert_int_equal(event_log_follow(log, &f, NULL), 0);
	assert_int_equal(event_log_follow(log, &g, NULL), 0);
	assert_int_equal(bell_wait(f.bell, clock_mono_ms() + 1, -1), -ETIMEDOUT);
	add(log, 0);
	add(log, 1);
	assert_int_equal(bell_wait(f.bell, -1, -1), 0);
	assert_int_equal(bell_wait(g.bell, -1, -1), 0);
	assert_int_equal(bell_wait(f.bell, clock_mono_ms() + 1, -1), -ETIMEDOUT);
	event_log_unfollow(log, &f);
	json_decref(event_log_read(log, -1, 0, &closed));
	assert_false(closed);
	event_log_close(log);
	assert_int_equal(bell_wait(g.bell, -1, -1), 0);
	json_decref(event_log_read(log, -1, 0, &closed));
	assert_true(closed);
	event_log_unfollow(log, &g);
	event_log_free(log);
}

enum { WRITERS = 4, EACH = 50 };

static void *write_some(void *log)
{
	for (int i = 0; i < EACH; i++)
		add(log, i);
	return NULL;
}

/* A follower sees all that many threads add, each thread's in its order. */
static void test_threads(void **state)
{
	struct event_log *log = event_log_new(*state);
	pthread_t threads[WRITERS];
	struct follower f;
	int64_t after_ms = -1;
	int seen[EACH] = {0}, total = 0;

	assert_int_equal(event_log_follow(log, &f, NULL), 0);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, log), 0);
	while (total < WRITERS * EACH) {
		json_t *list = event_log_read(log, after_ms, SIZE_MAX, NULL), *e;
		size_t i;

		if (json_array_size(list) == 0)
			assert_int_equal(bell_wait(f.bell, clock_mono_ms() + 30000, -1), 0);
		json_array_foreach(list, i, e) {
			json_t *number = json_object_get(json_object_get(e, "payload"), "number");

			seen[json_integer_value(number)]++;
			after_ms = time_of(e);
			total++;
		}
		json_decref(list);
	}
	for (int i = 0; i < WRITERS; i++)
		(void)pthread_join(threads[i], NULL);
	for (int i = 0; i < EACH; i++)
		assert_int_equal(seen[i], WRITERS);
	event_log_unfollow(log, &f);
	event_log_free(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_order),
		scratch_test(test_bounds),
		scratch_test(test_large_payload),
		scratch_test(test_next_daemon),
		scratch_test(test_damaged_file),
		scratch_test(test_hostile_file),
		scratch_test(test_no_folder),
		scratch_test(test_follow),
		scratch_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
