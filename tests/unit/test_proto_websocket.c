/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket: messages both ways, the closing handshake, and what breaks the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/websocket.h"

enum { TEXT_MAX = 1000 };

struct end {
	struct websocket *ws;
	struct buf text; /* messages, each with a '|' behind it */
	struct buf bytes;
};

static void on_text(void *user, const char *text, size_t len)
{
	struct end *e = user;

	assert_int_equal(text[len], 0);
	assert_int_equal(buf_append(&e->text, text, len), 0);
	assert_int_equal(buf_append(&e->text, "|", 1), 0);
}

static void on_bytes(void *user, const void *data, size_t len)
{
	struct end *e = user;

	assert_int_equal(buf_append(&e->bytes, data, len), 0);
}

static const struct websocket_ops ops = {.on_text = on_text, .on_bytes = on_bytes};
static const struct websocket_ops text_only = {.on_text = on_text};

static void begin(struct end *e, enum websocket_role role, const struct websocket_ops *which)
{
	*e = (struct end){.text = buf_init(MIB(1)), .bytes = buf_init(MIB(4))};
	e->ws = websocket_new(role, TEXT_MAX, which, e);
}

static void end(struct end *e)
{
	websocket_free(e->ws);
	buf_done(&e->text);
	buf_done(&e->bytes);
}

/* All that waits at one end comes to the other, in pieces. */
static void carry(struct end *from, struct end *to, size_t piece)
{
	struct buf *out = websocket_out(from->ws);

	while (out->len) {
		size_t n = MIN(piece, out->len);

		websocket_feed(to->ws, out->data, n);
		buf_consume(out, n);
	}
}

static void text(struct end *e, const char *s)
{
	websocket_send_text(e->ws, s, strlen(s));
}

static void is(const struct buf *b, const char *want)
{
	assert_string_equal(b->len ? b->data : "", want);
}

static void test_messages(void **state)
{
	static const size_t pieces[] = {1, 2, 7, 4096, SIZE_MAX};
	char *big = xcalloc(1, 100000);

	memset(big, 'x', 100000);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct end s, c;

		begin(&s, WEBSOCKET_SERVER, &ops);
		begin(&c, WEBSOCKET_CLIENT, &ops);
		text(&c, "");
		text(&c, "{\"a\":\"\xc3\xa4\"}");
		websocket_send_bytes(c.ws, "\0\1", 2);
		websocket_send_bytes(c.ws, "", 0);
		websocket_send_bytes(c.ws, big, 100000);
		carry(&c, &s, pieces[i]);
		is(&s.text, "|{\"a\":\"\xc3\xa4\"}|");
		assert_int_equal(s.bytes.len, 100002);
		text(&s, "answer");
		websocket_send_bytes(s.ws, big, 65536);
		carry(&s, &c, pieces[i]);
		is(&c.text, "answer|");
		assert_int_equal(c.bytes.len, 65536);
		assert_false(websocket_closing(s.ws));
		end(&s);
		end(&c);
	}
	free(big);
}

static void test_close(void **state)
{
	struct end s, c;

	begin(&s, WEBSOCKET_SERVER, &ops);
	begin(&c, WEBSOCKET_CLIENT, &ops);
	text(&s, "last");
	websocket_close(s.ws, WEBSOCKET_NORMAL, "done");
	text(&s, "too late");
	websocket_close(s.ws, WEBSOCKET_INTERNAL, "too late");
	text(&c, "crossed");
	assert_true(websocket_closing(s.ws));
	assert_false(websocket_over(s.ws));
	assert_int_equal(websocket_peer_code(c.ws), 0);
	carry(&s, &c, 3);
	is(&c.text, "last|");
	assert_int_equal(websocket_peer_code(c.ws), WEBSOCKET_NORMAL);
	assert_string_equal(websocket_peer_reason(c.ws), "done");
	assert_true(websocket_over(c.ws));
	carry(&c, &s, 3);
	is(&s.text, "");
	assert_true(websocket_over(s.ws));
	assert_int_equal(websocket_peer_code(s.ws), WEBSOCKET_NORMAL);
	end(&s);
	end(&c);
}

static void test_a_long_reason_is_cut(void **state)
{
	char reason[200];
	struct end s, c;

	memset(reason, 'x', sizeof(reason));
	memcpy(reason + WEBSOCKET_REASON_MAX - 1, "\xc3\xa4", 3); /* with a NUL */
	begin(&s, WEBSOCKET_SERVER, &ops);
	begin(&c, WEBSOCKET_CLIENT, &ops);
	websocket_close(c.ws, WEBSOCKET_UNSUPPORTED, reason);
	carry(&c, &s, SIZE_MAX);
	assert_int_equal(websocket_peer_code(s.ws), WEBSOCKET_UNSUPPORTED);
	assert_int_equal(strlen(websocket_peer_reason(s.ws)), WEBSOCKET_REASON_MAX - 1);
	end(&s);
	end(&c);
}

static void test_ping(void **state)
{
	struct end s, c;

	begin(&s, WEBSOCKET_SERVER, &ops);
	begin(&c, WEBSOCKET_CLIENT, &ops);
	websocket_ping(s.ws);
	carry(&s, &c, 1);
	assert_int_equal(websocket_out(c.ws)->len, 6); /* the pong, masked */
	carry(&c, &s, 1);
	assert_int_equal(websocket_out(s.ws)->len, 0);
	assert_false(websocket_closing(s.ws));
	end(&s);
	end(&c);
}

/* What a server answers to these bytes: its close's code. It hears nothing after that. */
static void refused(const struct websocket_ops *which, const char *data, size_t len,
	unsigned int want)
{
	struct end s;
	const struct buf *out;

	begin(&s, WEBSOCKET_SERVER, which);
	websocket_feed(s.ws, data, len);
	out = websocket_out(s.ws);
	assert_true(websocket_closing(s.ws));
	assert_in_range(out->len, 4, 2 + 2 + WEBSOCKET_REASON_MAX);
	assert_int_equal((uint8_t)out->data[0], 0x88);
	assert_int_equal((uint8_t)out->data[2] << 8 | (uint8_t)out->data[3], want);
	websocket_feed(s.ws, "\x81\x81\0\0\0\0x", 7);
	is(&s.text, "");
	end(&s);
}
#define REFUSED(ops, data, want) refused(ops, data, sizeof(data) - 1, want)

static void test_broken_rules(void **state)
{
	REFUSED(&ops, "\x81\x01x", 1002);                            /* no mask */
	REFUSED(&ops, "\xc1\x81\0\0\0\0x", 1002);                    /* a reserved bit */
	REFUSED(&ops, "\x83\x81\0\0\0\0x", 1002);                    /* an unknown opcode */
	REFUSED(&ops, "\x8b\x81\0\0\0\0x", 1002);                    /* ... of a control frame */
	REFUSED(&ops, "\x80\x81\0\0\0\0x", 1002);                    /* continues nothing */
	REFUSED(&ops, "\x01\x81\0\0\0\0x\x81\x81\0\0\0\0y", 1002);   /* not continued */
	REFUSED(&ops, "\x09\x80\0\0\0\0", 1002);                     /* a ping in pieces */
	REFUSED(&ops, "\x89\xfe\0\x7e\0\0\0\0", 1002);               /* a ping of 126 bytes */
	REFUSED(&ops, "\x81\xfe\0\x01\0\0\0\0x", 1002);              /* a length in long form */
	REFUSED(&ops, "\x82\xff\xff\0\0\0\0\0\0\0\0\0\0\0", 1002);   /* over 63 bits */
	REFUSED(&ops, "\x88\x82\0\0\0\0\0\x01", 1002);               /* no such code */
	REFUSED(&ops, "\x88\x83\0\0\0\0\x03\xe8\xff", 1007);         /* a reason in no UTF-8 */
	REFUSED(&ops, "\x81\x81\0\0\0\0\xff", 1007);                 /* text that is none */
	REFUSED(&ops, "\x01\x81\0\0\0\0\xc3\x80\x80\0\0\0\0", 1007); /* half a character */
	REFUSED(&ops, "\x81\x83\0\0\0\0\xed\xa0\x80", 1007);         /* a surrogate */
	REFUSED(&text_only, "\x82\x81\0\0\0\0x", 1003);
	REFUSED(&text_only, "\x82\x80\0\0\0\0", 1003);
}

/* Whatever its frames say, a text is not kept beyond its bound. */
static void test_long_text(void **state)
{
	char piece[] = "\x01\x8a\0\0\0\0xxxxxxxxxx";
	struct end s;

	begin(&s, WEBSOCKET_SERVER, &ops);
	for (int i = 0; i <= TEXT_MAX / 10; i++) {
		assert_int_equal(websocket_out(s.ws)->len, 0);
		websocket_feed(s.ws, piece, sizeof(piece) - 1);
		piece[0] = 0;
	}
	assert_int_equal((uint8_t)websocket_out(s.ws)->data[3], WEBSOCKET_TOO_BIG & 0xff);
	end(&s);
}

static void test_a_control_frame_in_between(void **state)
{
	static const char frames[] = "\x01\x82\0\0\0\0\xe2\x82"
				     "\x89\x81\0\0\0\0p"
				     "\x80\x81\0\0\0\0\xac";
	struct end s;

	begin(&s, WEBSOCKET_SERVER, &ops);
	websocket_feed(s.ws, frames, sizeof(frames) - 1);
	is(&s.text, "\xe2\x82\xac|");
	assert_int_equal(websocket_out(s.ws)->len, 3); /* the pong */
	end(&s);
}

static void test_accept(void **state)
{
	char accept[WEBSOCKET_ACCEPT_SIZE];

	websocket_accept(accept, "dGhlIHNhbXBsZSBub25jZQ=="); /* RFC 6455, section 1.3 */
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_a_long_reason_is_cut),
		cmocka_unit_test(test_ping),
		cmocka_unit_test(test_broken_rules),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_a_control_frame_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
