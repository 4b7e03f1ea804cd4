/* SPDX-License-Identifier: Apache-2.0 */
/* The guest end of the link over a socket pair, frame by frame. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link.h"

struct fixture {
	struct loop loop;
	struct link link;
	struct stream *stream; /* of the last OPEN */
	int opened;
	int gone;
	int room;
	int hangups;
	int host;
};

static struct fixture f;

static void on_gone(struct stream *s)
{
	f.gone++;
}

static void on_room(struct stream *s)
{
	f.room++;
}

static const struct stream_ops ops = {.on_gone = on_gone, .on_room = on_room};

static void on_open(struct link *link, struct stream *s, const json_t *request)
{
	f.opened++;
	f.stream = s;
	s->ops = &ops;
}

static void on_hangup(struct link *link)
{
	f.hangups++;
}

static void send_frame(enum link_type type, uint8_t arg, uint32_t stream, const void *data,
	size_t len)
{
	uint8_t header[LINK_HEADER_BYTES];

	link_encode_header(header, type, arg, stream, (uint32_t)len);
	assert_int_equal(write(f.host, header, sizeof(header)), sizeof(header));
	assert_int_equal(write(f.host, data, len), (ssize_t)len);
	assert_int_equal(loop_poll(&f.loop), 0);
	link_flush(&f.link);
}

static void hello(void)
{
	static const uint8_t payload[20] = "0123456789abcdef\1";

	send_frame(LINK_HELLO, 0, 0, payload, sizeof(payload));
}

static void open_stream(uint32_t id)
{
	send_frame(LINK_OPEN, 0, id, "{}", 2);
}

/* Reads one frame of at most 64 KiB. */
static enum link_type next_frame(uint32_t *ret_stream, uint32_t *ret_length)
{
	static uint8_t data[LINK_HEADER_BYTES + LIMIT_FRAME_BYTES];
	struct link_frame frame;
	size_t have = LINK_HEADER_BYTES, used;

	assert_int_equal(recv(f.host, data, have, MSG_WAITALL), (ssize_t)have);
	while (link_decode(data, have, &frame, &used) == 0) {
		uint32_t length = link_get_u32(data + 8);

		assert_int_equal(recv(f.host, data + have, length, MSG_WAITALL), (ssize_t)length);
		have += length;
	}
	*ret_stream = frame.stream;
	*ret_length = frame.length;
	return frame.type;
}

static int setup(void **state)
{
	int fds[2];

	f = (struct fixture){0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	f.host = fds[0];
	assert_int_equal(loop_init(&f.loop), 0);
	return link_open(&f.link, &f.loop, fds[1], on_open, on_hangup);
}

static int teardown(void **state)
{
	link_done(&f.link);
	loop_done(&f.loop);
	close(f.host);
	return 0;
}

static void test_nothing_before_hello(void **state)
{
	uint32_t stream, length;

	open_stream(1);
	assert_int_equal(f.opened, 0);
	hello();
	assert_int_equal(next_frame(&stream, &length), LINK_HELLO);
	assert_int_equal(length, 20);
	open_stream(1);
	assert_int_equal(f.opened, 1);
}

static void test_numbers_are_used_once_in_a_generation(void **state)
{
	hello();
	open_stream(5);
	stream_close(f.stream, json_object());
	open_stream(5);
	open_stream(4);
	assert_int_equal(f.opened, 1);
	hello();
	open_stream(1);
	assert_int_equal(f.opened, 2);
}

static void test_a_new_generation_drops_streams(void **state)
{
	hello();
	open_stream(1);
	open_stream(2);
	hello();
	assert_int_equal(f.gone, 2);
	assert_int_equal(f.link.stream_count, 0);
}

static void test_window_and_credit(void **state)
{
	static uint8_t bytes[LIMIT_FRAME_BYTES];
	uint8_t credit[4];
	uint32_t stream, length;
	size_t sent = 0;

	hello();
	assert_int_equal(next_frame(&stream, &length), LINK_HELLO);
	open_stream(1);
	while (sent < LIMIT_STREAM_WINDOW) {
		size_t n = stream_room(f.stream);

		assert_true(n > 0);
		stream_send(f.stream, LINK_DATA, LINK_CH_BODY, bytes, n);
		link_flush(&f.link);
		assert_int_equal(next_frame(&stream, &length), LINK_DATA);
		assert_int_equal(length, n);
		sent += n;
	}
	assert_int_equal(stream_room(f.stream), 0);
	stream_want_room(f.stream);
	link_flush(&f.link);
	assert_int_equal(f.room, 0);
	link_put_u32(credit, 1000);
	send_frame(LINK_CREDIT, 0, 1, credit, sizeof(credit));
	assert_int_equal(f.room, 1);
	assert_int_equal(stream_room(f.stream), 1000);
	link_put_u32(credit, UINT32_MAX); /* never more than a window */
	send_frame(LINK_CREDIT, 0, 1, credit, sizeof(credit));
	assert_int_equal(f.stream->tx_window, LIMIT_STREAM_WINDOW);
}

static void test_credit_for_what_was_received(void **state)
{
	static uint8_t bytes[LIMIT_FRAME_BYTES];
	uint32_t stream, length;

	hello();
	assert_int_equal(next_frame(&stream, &length), LINK_HELLO);
	open_stream(1);
	send_frame(LINK_DATA, 0, 1, bytes, sizeof(bytes)); /* no on_data: used up at once */
	assert_int_equal(next_frame(&stream, &length), LINK_CREDIT);
	assert_int_equal(stream, 1);
}

static void test_cancel_without_a_handler(void **state)
{
	uint32_t stream, length;

	hello();
	assert_int_equal(next_frame(&stream, &length), LINK_HELLO);
	open_stream(1);
	send_frame(LINK_CLOSE, 0, 1, "", 0);
	assert_int_equal(f.gone, 1);
	assert_int_equal(next_frame(&stream, &length), LINK_CLOSE);
	assert_int_equal(f.link.stream_count, 0);
}

static void test_hangup(void **state)
{
	hello();
	assert_int_equal(shutdown(f.host, SHUT_WR), 0);
	assert_int_equal(loop_poll(&f.loop), 0);
	assert_int_equal(f.hangups, 1);
}

static void test_error_kinds(void **state)
{
	static const struct {
		int r;
		const char *kind;
	} cases[] = {{-EINVAL, "invalid"}, {-ENOENT, "not_found"}, {-ENOTDIR, "not_a_directory"},
		{-EISDIR, "is_a_directory"}, {-EEXIST, "exists"}, {-ENOTEMPTY, "exists"},
		{-EACCES, "denied"}, {-EROFS, "denied"}, {-ENOSPC, "no_space"}, {-EBUSY, "busy"},
		{-EAGAIN, "limit"}, {-EOPNOTSUPP, "unsupported"}, {-EIO, "io"},
		{-EXDEV, "internal"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(link_error_kind(cases[i].r), cases[i].kind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_before_hello, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers_are_used_once_in_a_generation, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_a_new_generation_drops_streams, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_window_and_credit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_credit_for_what_was_received, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel_without_a_handler, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hangup, setup, teardown),
		cmocka_unit_test(test_error_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
