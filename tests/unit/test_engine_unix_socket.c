/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets by folder and name: however long the folder's path is, and never left open by mistake. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "engine/unix_socket.h"
#include "scratch.h"

static void talk(const char *dir)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int listener = unix_listen(dir_fd, "a.sock", SOCK_STREAM);
	_cleanup_close_ int client = unix_connect(dir_fd, "a.sock", SOCK_STREAM);
	_cleanup_close_ int server = -1;
	char byte = 0;

	assert_true(listener >= 0 && client >= 0);
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(send(client, "x", 1, 0), 1);
	assert_int_equal(recv(server, &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
}

static void test_short(void **state)
{
	talk(*state);
}

/* A socket's address holds 108 bytes. */
static void test_long_path(void **state)
{
	_cleanup_free_ char *dir = NULL;

	assert_true(asprintf(&dir, "%s/%0200d/%0200d", (const char *)*state, 1, 2) > 0);
	assert_int_equal(fs_mkdirs(dir, 0700, NULL), 0);
	talk(dir);
}

static void test_failures(void **state)
{
	_cleanup_close_ int dir_fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int first = unix_listen(dir_fd, "a.sock", SOCK_STREAM);

	assert_true(first >= 0);
	assert_int_equal(unix_listen(dir_fd, "a.sock", SOCK_STREAM), -EADDRINUSE);
	assert_int_equal(unix_connect(dir_fd, "none.sock", SOCK_STREAM), -ENOENT);
	(void)close(steal_fd(&first));
	assert_int_equal(unix_connect(dir_fd, "a.sock", SOCK_STREAM), -ECONNREFUSED);
}

/* A machine's process may have put one there, to a socket of somebody else's. */
/* It may be a hostile one. */
static void test_nobody_accepts(void **state)
{
	_cleanup_close_ int dir_fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int server = unix_listen(dir_fd, "a.sock", SOCK_STREAM);
	int clients[64], n = 0;

	assert_true(server >= 0);
	while (n < 64 && (clients[n] = unix_connect(dir_fd, "a.sock", SOCK_STREAM)) >= 0)
		n++;
	assert_in_range(n, 1, 63);
	assert_int_equal(clients[n], -EAGAIN);
	assert_int_equal(fcntl(clients[0], F_GETFL) & O_NONBLOCK, 0);
	while (n > 0)
		(void)close(clients[--n]);
}

static void test_a_link(void **state)
{
	_cleanup_close_ int dir_fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int listener = unix_listen(dir_fd, "a.sock", SOCK_STREAM);

	assert_true(listener >= 0);
	assert_int_equal(symlinkat("a.sock", dir_fd, "b.sock"), 0);
	assert_int_equal(unix_connect(dir_fd, "b.sock", SOCK_STREAM), -ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_short),
		scratch_test(test_long_path),
		scratch_test(test_failures),
		scratch_test(test_a_link),
		scratch_test(test_nobody_accepts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
