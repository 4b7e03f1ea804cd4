/* SPDX-License-Identifier: Apache-2.0 */
/* The QMP client against a scripted peer: answers, refusals, events in between, silence and nonsense. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "engine/qmp.h"
#include "engine/unix_socket.h"
#include "scratch.h"

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"
#define OK "{\"return\": {}}\r\n"

/* What QEMU says: first unasked, then one reply for each command. */
struct script {
	const char *replies[8]; /* NULL: say nothing more and wait for the other end to go */
	json_t *seen[8];        /* owned; the commands that came */
	unsigned int n_seen;
	int listener;
	pthread_t thread;
};

static void *play(void *arg)
{
	struct script *s = arg;
	_cleanup_close_ int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

	for (size_t i = 0; s->replies[i]; i++) {
		size_t len = strlen(s->replies[i]);
		char command[4096];
		ssize_t n;

		if (send(fd, s->replies[i], len, MSG_NOSIGNAL) != (ssize_t)len)
			return NULL;
		n = recv(fd, command, sizeof(command), 0);
		if (n <= 0)
			return NULL;
		s->seen[s->n_seen++] = json_loadb(command, (size_t)n, 0, NULL);
	}
	(void)shutdown(fd, SHUT_WR);
	return NULL;
}

static int open_qmp(const char *dir, struct script *s, struct qmp *qmp, struct err *err)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	s->listener = unix_listen(dir_fd, "qmp.sock", SOCK_STREAM);
	assert_true(s->listener >= 0);
	assert_int_equal(pthread_create(&s->thread, NULL, play, s), 0);
	return qmp_open(qmp, dir_fd, "qmp.sock", err);
}

static void finish(struct script *s, struct qmp *qmp)
{
	qmp_close(qmp);
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	(void)close(s->listener);
}

static void script_done(struct script *s)
{
	for (unsigned int i = 0; i < s->n_seen; i++)
		json_decref(s->seen[i]);
}

static const char *command_of(const struct script *s, unsigned int i)
{
	return json_string_value(json_object_get(s->seen[i], "execute"));
}

static void test_execute(void **state)
{
	CLEANUP(script_done)
	struct script s = {
		.replies = {GREETING, OK, "{\"return\": {\"status\": \"running\"}}\r\n", OK, OK}};
	struct err err = {0};
	struct qmp qmp;
	json_t *ret = NULL;

	assert_int_equal(open_qmp(*state, &s, &qmp, &err), 0);
	assert_int_equal(qmp_execute(&qmp, "query-status", NULL, 10000, &ret, &err), 0);
	assert_string_equal(json_string_value(json_object_get(ret, "status")), "running");
	json_decref(ret);
	assert_int_equal(qmp_execute(&qmp, "save", json_pack("{s:s}", "filename", "f"), 10000, NULL,
				 &err),
		0);
	assert_int_equal(qmp_execute(&qmp, "quit", NULL, 10000, NULL, &err), 0);
	finish(&s, &qmp);
	assert_string_equal(command_of(&s, 0), "qmp_capabilities");
	assert_string_equal(command_of(&s, 1), "query-status");
	assert_null(json_object_get(s.seen[1], "arguments"));
}

static void test_events_in_between(void **state)
{
	CLEANUP(script_done)
	struct script s = {
		.replies = {"{\"event\": \"EARLY\"}\r\n" GREETING,
			"{\"event\": \"STOP\"}\r\n" OK "{\"event\": \"LATE\"}\r\n",
			"{\"event\": \"A\"}\r\n{\"event\": \"B\"}\r\n{\"return\": 7}\r\n"}};
	struct qmp qmp;
	json_t *ret = NULL;

	assert_int_equal(open_qmp(*state, &s, &qmp, NULL), 0);
	assert_int_equal(qmp_execute(&qmp, "x", NULL, 10000, &ret, NULL), 0);
	assert_int_equal(json_integer_value(ret), 7);
	json_decref(ret);
	finish(&s, &qmp);
}

static void test_refused(void **state)
{
	CLEANUP(script_done)
	struct script s = {
		.replies = {GREETING, OK,
			"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\\nway\"}}\r\n",
			"{\"return\": 1, \"error\": {}}\r\n", OK}};
	struct err err = {0};
	json_t *ret = NULL;
	struct qmp qmp;

	assert_int_equal(open_qmp(*state, &s, &qmp, &err), 0);
	assert_int_equal(qmp_execute(&qmp, "stop", NULL, 10000, &ret, &err), -EREMOTEIO);
	assert_int_equal(err.kind, ERR_ENGINE);
	assert_string_equal(err.msg, "QEMU refused stop: no?way");
	assert_int_equal(qmp_execute(&qmp, "stop", NULL, 10000, &ret, &err), -EREMOTEIO);
	assert_null(ret);
	assert_int_equal(qmp_execute(&qmp, "cont", NULL, 10000, NULL, &err),
		0); /* usable as before */
	finish(&s, &qmp);
}

static void test_silence(void **state)
{
	CLEANUP(script_done) struct script s = {.replies = {GREETING, OK, ""}};
	struct err err = {0};
	struct qmp qmp;

	assert_int_equal(open_qmp(*state, &s, &qmp, &err), 0);
	assert_int_equal(qmp_execute(&qmp, "stop", NULL, 10, NULL, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "did not answer stop"));
	finish(&s, &qmp);
}

static void test_gone(void **state)
{
	CLEANUP(script_done) struct script s = {.replies = {GREETING, OK}};
	struct err err = {0};
	struct qmp qmp;

	assert_int_equal(open_qmp(*state, &s, &qmp, &err), 0);
	assert_int_equal(qmp_execute(&qmp, "stop", NULL, 10000, NULL, &err), -EPIPE);
	finish(&s, &qmp);
}

static void refuses_greeting(const char *dir, const char *greeting, int want)
{
	CLEANUP(script_done) struct script s = {.replies = {greeting}};
	struct err err = {0};
	struct qmp qmp;

	assert_int_equal(open_qmp(dir, &s, &qmp, &err), want);
	assert_int_equal(err.kind, ERR_ENGINE);
	assert_int_equal(qmp.fd, -1);
	finish(&s, &qmp);
}

static void test_nonsense(void **state)
{
	refuses_greeting(*state, "SSH-2.0-OpenSSH\r\n", -EPROTO);
}

static void test_not_an_object(void **state)
{
	refuses_greeting(*state, "[1]\n", -EPROTO);
}

static void test_nobody_there(void **state)
{
	_cleanup_close_ int dir_fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	struct qmp qmp;

	assert_int_equal(qmp_open(&qmp, dir_fd, "qmp.sock", &err), -ENOENT);
	assert_int_equal(qmp.fd, -1);
}

static void test_parse_line(void **state)
{
	static char big[(64 << 10) + 2];
	json_t *json = NULL;
	size_t used = 77;

	assert_int_equal(qmp_parse_line(NULL, 0, &json, &used), 0);
	assert_int_equal(qmp_parse_line("{\"a\":1}", 7, &json, &used), 0);
	assert_int_equal(used, 77);
	assert_int_equal(qmp_parse_line("{\"a\":1}\r\n{", 10, &json, &used), 1);
	assert_int_equal(used, 9);
	assert_int_equal(json_integer_value(json_object_get(json, "a")), 1);
	json_decref(json);
	assert_int_equal(qmp_parse_line("\n", 1, &json, &used), -EPROTO);
	assert_int_equal(qmp_parse_line("7\n", 2, &json, &used), -EPROTO);
	assert_int_equal(qmp_parse_line("{\"a\":1} x\n", 10, &json, &used), -EPROTO);
	memset(big, ' ', sizeof(big));
	assert_int_equal(qmp_parse_line(big, 64 << 10, &json, &used), 0);
	assert_int_equal(qmp_parse_line(big, sizeof(big), &json, &used), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_execute),
		scratch_test(test_events_in_between),
		scratch_test(test_refused),
		scratch_test(test_silence),
		scratch_test(test_gone),
		scratch_test(test_nonsense),
		scratch_test(test_not_an_object),
		scratch_test(test_nobody_there),
		cmocka_unit_test(test_parse_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
