/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted guest: reads and writes frames, and checks what the host makes of them. */
#include "link_guest.h"

#include <errno.h>
#include <sys/socket.h>

bool guest_read_exactly(int fd, void *data, size_t len)
{
	return len == 0 || recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

bool guest_read(int fd, struct frame *f)
{
	uint8_t h[LINK_HEADER_BYTES];

	if (!guest_read_exactly(fd, h, sizeof(h)))
		return false;
	f->type = (enum link_type)h[1];
	f->arg = h[2];
	f->stream = link_get_u32(h + 4);
	f->length = link_get_u32(h + 8);
	assert_int_equal(h[0], LINK_MAGIC);
	assert_true(f->length <= LIMIT_FRAME_BYTES);
	f->payload[f->length] = '\0';
	return guest_read_exactly(fd, f->payload, f->length);
}

void guest_raw(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* the host has had enough */
		p += n;
		len -= (size_t)n;
	}
}

void guest_send(int fd, enum link_type type, uint8_t arg, uint32_t stream, const void *data,
	size_t len)
{
	uint8_t h[LINK_HEADER_BYTES];

	link_encode_header(h, type, arg, stream, (uint32_t)len);
	guest_raw(fd, h, sizeof(h));
	guest_raw(fd, data, len);
}

void guest_text(int fd, enum link_type type, uint8_t arg, uint32_t stream, const char *text)
{
	guest_send(fd, type, arg, stream, text, strlen(text));
}

void guest_credit(int fd, uint32_t stream, uint32_t n)
{
	uint8_t payload[4];

	link_put_u32(payload, n);
	guest_send(fd, LINK_CREDIT, 0, stream, payload, sizeof(payload));
}

/* ---- setup ---- */

struct pair *pair_new(bool padded)
{
	struct pair *p = xnew(struct pair);
	struct err err = {0};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	p->guest_fd = fds[1];
	assert_int_equal(link_hub_new(&p->hub, NULL), 0);
	if (link_new(p->hub, fds[0], padded, &p->link, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

int link_guest_setup(void **state)
{
	struct pair *p = pair_new(false);

	assert_true(guest_read_exactly(p->guest_fd, p->hello, sizeof(p->hello)));
	guest_raw(p->guest_fd, p->hello, sizeof(p->hello));
	*state = p;
	return 0;
}

int link_guest_teardown(void **state)
{
	struct pair *p = *state;

	link_unref(p->link);
	link_hub_free(p->hub);
	cleanup_close(&p->guest_fd);
	free(p);
	return 0;
}

struct link_stream *open_stream(struct pair *p)
{
	struct link_stream *s = NULL;
	struct err err = {0};
	struct frame f;

	if (link_open(p->link, json_pack("{s:s}", "op", "test"), &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(guest_read(p->guest_fd, &f));
	assert_int_equal(f.type, LINK_OPEN);
	assert_string_equal(f.payload, "{\"op\":\"test\"}");
	return s;
}

/* ---- expectations ---- */

void next_is(struct link_stream *s, struct link_event *ev, enum link_type type)
{
	struct err err = {0};

	if (link_next(s, ev, -1, -1, &err) != 1)
		fail_msg("%s", err.msg);
	assert_int_equal(ev->type, type);
}

void data_is(struct link_stream *s, enum link_channel channel, const char *want)
{
	struct link_event ev;

	next_is(s, &ev, LINK_DATA);
	assert_int_equal(ev.channel, channel);
	assert_int_equal(ev.len, strlen(want));
	assert_memory_equal(ev.data, want, ev.len);
	link_event_done(s, &ev);
}

void json_is(struct link_stream *s, enum link_type type, const char *want)
{
	_cleanup_free_ char *text = NULL;
	struct link_event ev;

	next_is(s, &ev, type);
	text = json_dumps(ev.json, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, want);
	link_event_done(s, &ev);
}

void dies(struct link_stream *s, const char *why)
{
	struct err err = {0};
	struct link_event ev;
	int r;

	while ((r = link_next(s, &ev, -1, -1, &err)) > 0)
		link_event_done(s, &ev);
	assert_int_equal(r, -EPIPE);
	assert_int_equal(err.kind, ERR_SANDBOX_FAILED);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
}
