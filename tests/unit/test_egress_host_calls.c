/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send() and recv() of a stream that is looked into, on a socket that takes what it likes: whatever part of the bytes it takes at a time,
 * the name in them is found. The calls of this program are the ones that are tested.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/macros.h"
#include "egress/host_calls.h"

enum { ROOM = 1 << 20 };

static unsigned int denials;
static char last_why[EGRESS_WHY_SIZE];

static void on_denied(const struct egress_target *target, const char *name, const char *why,
	void *user)
{
	denials++;
	(void)snprintf(last_why, sizeof(last_why), "%s", why);
}

static void set_config(const char *text)
{
	static struct egress_config configs[2], *config = &configs[0];
	struct err err;

	config = config == &configs[0] ? &configs[1] : &configs[0];
	egress_config_done(config);
	if (egress_config_parse(text, config, &err) < 0)
		fail_msg("%s", err.msg);
	host_calls_set_config(config);
}

/* A stream to 93.184.216.34: what it is connected to is a socket of ours, that stands for the host. */
static int open_stream(int *ret_far)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(8080)};
	int pair[2], small = 1;

	to.sin_addr.s_addr = htonl(93U << 24 | 184 << 16 | 216 << 8 | 34);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	host_calls_opened(pair[0]);
	/* It is judged; and then the kernel says that this is no such socket. */
	assert_int_equal(connect(pair[0], (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, EINVAL);
	*ret_far = pair[1];
	return pair[0];
}

static void close_stream(int fd, int far)
{
	host_calls_closed(fd);
	(void)close(fd);
	(void)close(far);
}

/*
 * Sends all as libslirp does: what is not taken comes again, and perhaps more behind it. `step` bytes are added at a time. The far end
 * reads `sip` bytes when nothing is taken any more. Returns how much has arrived there.
 */
static size_t pump(int fd, int far, const char *data, size_t len, size_t step, size_t sip,
	char *ret)
{
	size_t at = 0, end = 0, got = 0;

	while (at < len) {
		ssize_t n;

		end = MIN(MAX(end, at) + step, len);
		n = send(fd, data + at, end - at, 0);
		if (n > 0) {
			at += (size_t)n;
			continue;
		}
		assert_int_equal(n, -1);
		assert_int_equal(errno, EAGAIN);
		n = recv(far, ret + got, sip, 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	for (;;) {
		ssize_t n = recv(far, ret + got, ROOM - got, 0);

		if (n <= 0)
			return got;
		got += (size_t)n;
	}
}

/* A body of full buffers, and then, at any place of them, what must not be seen by the host. */
static size_t make_stream(char *dst, size_t body, const char *tail)
{
	size_t at = (size_t)sprintf(dst, "POST / HTTP/1.1\r\nHost: good.example\r\n\r\n");

	for (size_t i = 0; i < body; i++)
		dst[at++] = (char)('a' + i % 23);
	strcpy(dst + at, tail);
	return at + strlen(tail);
}

static void test_partial_writes(void **state)
{
	static const char evil[] = "\r\nHost: evil.example\r\n\r\n";
	static char data[ROOM], got[ROOM];
	size_t arrived, len;
	int far, fd;

	set_config("internet yes\ndeny evil.example\n");
	for (size_t body = 20000; body < 20200; body += 3) {
		for (size_t step = 1; step < 60000; step = step * 7 + 1) {
			len = make_stream(data, body, evil);
			fd = open_stream(&far);
			denials = 0;
			arrived = pump(fd, far, data, len, step, 1000 + body % 7, got);
			assert_int_equal(denials, 1);
			assert_string_equal(last_why,
				"the sandbox's policy denies \"evil.example\"");
			/* As it was sent, and no longer than the name may be known. */
			assert_memory_equal(got, data, arrived);
			assert_true(arrived <= len - strlen("\r\n\r\n"));
			assert_int_equal(recv(fd, got, 1, 0), -1);
			assert_int_equal(errno, ECONNRESET);
			assert_int_equal(send(fd, "x", 1, 0), 1);
			close_stream(fd, far);
		}
	}
}

static void test_all_of_it_arrives(void **state)
{
	static char data[ROOM], got[ROOM];
	int far, fd;

	set_config("internet yes\ndeny evil.example\n");
	for (size_t step = 1; step < 200000; step = step * 5 + 1) {
		size_t len = make_stream(data, 100000, "\r\nHost: good.example\r\n\r\n");

		fd = open_stream(&far);
		denials = 0;
		assert_int_equal(pump(fd, far, data, len, step, 777, got), len);
		assert_memory_equal(got, data, len);
		assert_int_equal(denials, 0);
		close_stream(fd, far);
	}
}

/* What the socket did not take need not come again: a guest can have libslirp forget it. What comes instead is looked at. */
static void test_other_bytes_instead(void **state)
{
	static char data[ROOM];
	int far, fd;
	ssize_t n;

	set_config("internet yes\ndeny evil.example\n");
	fd = open_stream(&far);
	memset(data, 'a', sizeof(data));
	data[0] = '\n';
	while ((n = send(fd, data, 4096, 0)) > 0)
		continue;
	assert_int_equal(errno, EAGAIN);
	/* This is seen, and not taken. */
	assert_int_equal(send(fd, "\r\nHost: good.example\r\n", 22, 0), -1);
	denials = 0;
	assert_int_equal(send(fd, "\r\nHost: evil.example\r\n", 22, 0), 22);
	assert_int_equal(denials, 1);
	close_stream(fd, far);
}

static void test_urgent_data(void **state)
{
	int far, fd;

	set_config("internet yes\ndeny evil.example\n");
	fd = open_stream(&far);
	denials = 0;
	assert_int_equal(send(fd, "x", 1, MSG_OOB), 1);
	assert_int_equal(denials, 1);
	assert_string_equal(last_why, "urgent data can't be looked into");
	assert_int_equal(recv(fd, &(char){0}, 1, 0), -1);
	close_stream(fd, far);
}

static void test_held_while_the_rate_is_used_up(void **state)
{
	char got[16];
	int far, fd;

	set_config("internet yes\ndeny evil.example\n");
	fd = open_stream(&far);
	host_calls_hold(true);
	assert_int_equal(send(fd, "hello", 5, 0), -1);
	assert_int_equal(errno, EAGAIN);
	host_calls_hold(false);
	assert_int_equal(send(fd, "hello", 5, 0), 5);
	assert_int_equal(recv(far, got, sizeof(got), 0), 5);
	close_stream(fd, far);
}

static void test_refused_addresses(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	static const uint8_t resolver[16] = {[10] = 0xFF, 0xFF, 10, 0, 2, 3};
	int far, fd;

	set_config("internet yes\nresolver 192.0.2.1\n");
	fd = open_stream(&far);
	denials = 0;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, EINPROGRESS); /* and then it is reset */
	assert_int_equal(recv(fd, &(char){0}, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_string_equal(last_why, "it is a loopback address");
	memcpy(&mapped.sin6_addr, resolver, sizeof(resolver));
	assert_int_equal(connect(fd, (struct sockaddr *)&mapped, sizeof(mapped)), -1);
	assert_string_equal(last_why, "it is an IPv4 address in a packet of IPv6");
	assert_int_equal(denials, 2);
	close_stream(fd, far);
	/* A descriptor that is not libslirp's reaches nothing by name. */
	assert_int_equal(connect(far, (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(sendto(far, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, EACCES);
}

/* A change of policy ends what it does not allow, be it looked into or not. */
static void test_policy_changes(void **state)
{
	int far, fd;

	set_config("internet yes\n");
	fd = open_stream(&far);
	assert_int_equal(host_calls_open(), 1);
	set_config("internet yes\ndeny 8.8.8.8\n");
	assert_false(host_calls_begun(fd));
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_true(host_calls_begun(fd));
	denials = 0;
	set_config("internet no\n");
	assert_int_equal(denials, 1);
	assert_string_equal(last_why, "the policy has changed");
	assert_int_equal(recv(fd, &(char){0}, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close_stream(fd, far);
	assert_int_equal(host_calls_open(), 0);
	/* Its number may be another's now. */
	set_config("internet yes\n");
	fd = open_stream(&far);
	assert_false(host_calls_begun(fd));
	close_stream(fd, far);
}

static int begin(void **state)
{
	host_calls_on_denied(on_denied, NULL);
	return host_calls_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partial_writes),
		cmocka_unit_test(test_all_of_it_arrives),
		cmocka_unit_test(test_other_bytes_instead),
		cmocka_unit_test(test_urgent_data),
		cmocka_unit_test(test_held_while_the_rate_is_used_up),
		cmocka_unit_test(test_refused_addresses),
		cmocka_unit_test(test_policy_changes),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
