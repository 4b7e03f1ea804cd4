/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened to a sandbox.
 *
 * Theory of operation
 * -------------------
 * The last EVENT_LOG_EVENTS_MAX events are in a ring, each as the line of JSON that the file has, too. The file only grows, by
 * one write() an event, until it has twice as many lines; then it is written anew from the ring, under another name, and
 * renamed. The same happens after a write that failed, and where what an earlier daemon left is not a log as we write it
 * (the machine has crashed): so a torn line harms itself only.
 * The file lies in the folder of a machine and is not trusted.
 */
#include "core/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"

enum {
	FILE_LINES_MAX = 2 * EVENT_LOG_EVENTS_MAX,
	LINE_BYTES_MAX = 2048, /* a payload that makes it longer is left out, and that is said */
	FILE_BYTES_MAX = FILE_LINES_MAX * (LINE_BYTES_MAX + 1),
};

static const int64_t TIME_MS_MAX = 253402300799999; /* the end of the year 9999 */

struct event {
	int64_t time_ms;
	char *line; /* owned; {"time_ms","type","payload"} */
};

struct event_log {
	char *path; /* owned */

	pthread_mutex_t lock; /* protects all below */
	struct event ring[EVENT_LOG_EVENTS_MAX];
	size_t first, n;
	size_t file_lines;
	bool rewrite; /* the file is not what it should be */
	bool closed;
	struct list followers;
};

static struct event *event_at(struct event_log *log, size_t i)
{
	return &log->ring[(log->first + i) % EVENT_LOG_EVENTS_MAX];
}

static int64_t last_time(struct event_log *log)
{
	return log->n ? event_at(log, log->n - 1)->time_ms : -1;
}

static void push(struct event_log *log, struct event e)
{
	if (log->n == EVENT_LOG_EVENTS_MAX) {
		free(event_at(log, 0)->line);
		log->first = (log->first + 1) % EVENT_LOG_EVENTS_MAX;
		log->n--;
	}
	log->n++;
	*event_at(log, log->n - 1) = e;
}

/* ---- the file ---- */

static int write_anew(struct event_log *log)
{
	_cleanup_free_ char *temporary = NULL;
	_cleanup_buf_ struct buf text = buf_init(FILE_BYTES_MAX);
	_cleanup_close_ int fd = -1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < log->n; i++)
		r = buf_appendf(&text, "%s\n", event_at(log, i)->line);
	if (r < 0)
		return r;
	if (asprintf(&temporary, "%s.new", log->path) < 0)
		abort();
	(void)unlink(temporary); /* of an attempt that failed */
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fs_write_all(fd, text.data, text.len);
	if (r == 0 && rename(temporary, log->path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(temporary);
	else
		log->file_lines = log->n;
	return r;
}

static int append(struct event_log *log, const char *line)
{
	_cleanup_close_ int fd = open(log->path,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	char text[LINE_BYTES_MAX + 2];

	if (fd < 0)
		return -errno;
	log->file_lines++;
	return fs_write_all(fd, text, (size_t)snprintf(text, sizeof(text), "%s\n", line));
}

/* The last event goes to the file. */
static void save(struct event_log *log)
{
	int r = log->rewrite || log->file_lines >= FILE_LINES_MAX
		? write_anew(log)
		: append(log, event_at(log, log->n - 1)->line);

	log->rewrite = r < 0;
	if (r < 0 && r != -ENOENT) /* the folder goes before the last event comes */
		log_warn("an event is not kept for the next daemon", LOG_STR("file", log->path),
			LOG_INT("errno", -r));
}

/* A line of the file, if it is one of ours and younger than those before it. */
static bool load_line(struct event_log *log, const char *line)
{
	json_t *e = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	json_t *time = json_object_get(e, "time_ms");
	int64_t time_ms = json_integer_value(time);
	bool ok = strlen(line) <= LINE_BYTES_MAX && time_ms > last_time(log) &&
		time_ms <= TIME_MS_MAX && json_is_string(json_object_get(e, "type")) &&
		json_is_object(json_object_get(e, "payload"));

	json_decref(e);
	if (!ok)
		return false;
	push(log, (struct event){time_ms, xstrdup(line)});
	return true;
}

static void load(struct event_log *log)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(log->path, FILE_BYTES_MAX, &text, NULL, NULL);
	char *line, *end;

	log->rewrite = r < 0 && r != -ENOENT;
	for (line = text; line && *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end) {
			log->rewrite = true;
			break;
		}
		*end = '\0';
		log->file_lines++;
		if (!load_line(log, line))
			log->rewrite = true;
	}
}

/* ---- the log ---- */

struct event_log *event_log_new(const char *dir)
{
	struct event_log *log = xnew(struct event_log);

	log->path = fs_join(dir, "events");
	(void)pthread_mutex_init(&log->lock, NULL); /* never fails on Linux */
	list_init(&log->followers);
	load(log);
	return log;
}

struct event_log *event_log_free(struct event_log *log)
{
	if (!log)
		return NULL;
	assert(list_empty(&log->followers));
	for (size_t i = 0; i < log->n; i++)
		free(event_at(log, i)->line);
	pthread_mutex_destroy(&log->lock);
	free(log->path);
	free(log);
	return NULL;
}

static char *make_line(int64_t time_ms, const char *type, json_t *payload)
{
	json_t *e = json_pack("{s:I, s:s, s:O}", "time_ms", (json_int_t)time_ms, "type", type,
		"payload", payload);
	char *line = json_dumps(e, JSON_COMPACT);

	json_decref(e);
	return line;
}

void event_log_add(struct event_log *log, const char *type, json_t *payload)
{
	int64_t time_ms;
	char *line;

	if (!payload)
		payload = json_object();
	pthread_mutex_lock(&log->lock);
	time_ms = MAX(clock_real_ms(), last_time(log) + 1);
	line = make_line(time_ms, type, payload);
	if (line && strlen(line) > LINE_BYTES_MAX) {
		free(line);
		json_decref(payload);
		payload = json_pack("{s:b}", "truncated", 1);
		line = make_line(time_ms, type, payload);
	}
	if (!line)
		abort(); /* out of memory */
	push(log, (struct event){time_ms, line});
	save(log);
	followers_ring(&log->followers);
	pthread_mutex_unlock(&log->lock);
	json_decref(payload);
}

void event_log_close(struct event_log *log)
{
	pthread_mutex_lock(&log->lock);
	log->closed = true;
	followers_ring(&log->followers);
	pthread_mutex_unlock(&log->lock);
}

json_t *event_log_read(struct event_log *log, int64_t after_ms, size_t tail, bool *ret_closed)
{
	json_t *list = json_array();
	size_t i;

	pthread_mutex_lock(&log->lock);
	for (i = log->n; i > 0 && tail > 0 && event_at(log, i - 1)->time_ms > after_ms; i--)
		tail--;
	for (; i < log->n; i++)
		(void)json_array_append_new(list, json_loads(event_at(log, i)->line, 0, NULL));
	if (ret_closed)
		*ret_closed = log->closed;
	pthread_mutex_unlock(&log->lock);
	return list;
}

int event_log_follow(struct event_log *log, struct follower *f, struct err *err)
{
	f->bell = bell_new();
	if (f->bell < 0)
		return err_set_errno(err, f->bell, "can't follow the events");
	pthread_mutex_lock(&log->lock);
	list_append(&log->followers, &f->node);
	pthread_mutex_unlock(&log->lock);
	return 0;
}

void event_log_unfollow(struct event_log *log, struct follower *f)
{
	pthread_mutex_lock(&log->lock);
	list_remove(&f->node);
	pthread_mutex_unlock(&log->lock);
	cleanup_close(&f->bell);
}
