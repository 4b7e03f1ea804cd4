/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of an HTTP/1.1 server's answer. */
/*
 * Theory of operation
 * -------------------
 * llhttp calls back for each piece that it finds; a callback that returns HPE_PAUSED stops it there. It is stopped behind
 * the head, so that nobody has to keep a body that came with it, and behind the end of the message. What was taken until
 * then is where its error position says.
 */
#include "http/answer.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>

#include "base/limits.h"
#include "http/headers.h"

struct answer {
	llhttp_t parser;
	struct answer_facts facts;
	bool no_body;
	bool upgrade;
	bool informational; /* the message at hand is one of 100 to 199 */
	size_t head_bytes;  /* taken for heads so far */
	struct buf name, value;
	char *dst; /* borrowed during answer_body() */
	size_t dst_len;
};

static int fail(struct answer *a, const char *why)
{
	a->facts.why = why;
	return HPE_USER;
}

static struct answer *of(llhttp_t *parser)
{
	return parser->data;
}

static int collect(llhttp_t *parser, struct buf *text, const char *at, size_t len)
{
	struct answer *a = of(parser);

	if (a->facts.head)
		return 0; /* trailers are left out */
	return buf_append(text, at, len) < 0 ? fail(a, "a header is too long") : 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
	return collect(parser, &of(parser)->name, at, len);
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
	return collect(parser, &of(parser)->value, at, len);
}

static int on_value_complete(llhttp_t *parser)
{
	struct answer *a = of(parser);
	int r = 0;

	if (!a->facts.head)
		r = headers_add(&a->facts.headers, a->name.data ? a->name.data : "", a->name.len,
			a->value.data ? a->value.data : "", a->value.len);
	buf_clear(&a->name);
	buf_clear(&a->value);
	if (r == -EINVAL)
		return fail(a, "a header is malformed");
	return r < 0 ? fail(a, "its headers are too long") : 0;
}

static int on_head(llhttp_t *parser)
{
	struct answer *a = of(parser);
	int status = parser->status_code;
	bool none = a->no_body || status == 204 || status == 304;

	if (status < 100)
		return fail(a, "its status is none");
	if (status < 200 && status != 101) {
		a->informational = true;
		buf_clear(&a->facts.headers);
		return 1; /* it has no body, whatever it says */
	}
	a->facts.status = status;
	a->facts.body_len = none ? 0 : -1;
	if ((parser->flags & F_CONTENT_LENGTH) && parser->content_length <= INT64_MAX)
		a->facts.body_len = (int64_t)parser->content_length;
	a->facts.head = true;
	if (status == 101) {
		if (!a->upgrade || !parser->upgrade)
			return fail(a, "it changes the protocol, which nobody asked for");
		a->facts.upgraded = true;
		return 2; /* what follows is no body */
	}
	return none ? 1 : HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
	struct answer *a = of(parser);

	assert(a->dst); /* no head has a body */
	memcpy(a->dst + a->dst_len, at, len);
	a->dst_len += len;
	return 0;
}

static int on_end(llhttp_t *parser)
{
	struct answer *a = of(parser);

	if (a->informational) {
		a->informational = false;
		return 0;
	}
	a->facts.over = !a->facts.upgraded;
	return a->facts.over ? HPE_PAUSED : 0;
}

static const llhttp_settings_t settings = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_end,
};

struct answer *answer_new(bool no_body, bool upgrade)
{
	struct answer *a = xnew(struct answer);

	llhttp_init(&a->parser, HTTP_RESPONSE, &settings);
	llhttp_set_lenient_headers(&a->parser,
		1); /* of line ends; headers_add() looks at the values */
	a->parser.data = a;
	a->no_body = no_body;
	a->upgrade = upgrade;
	a->facts.headers = buf_init(LIMIT_ANSWER_HEAD_BYTES);
	a->name = buf_init(LIMIT_ANSWER_HEAD_BYTES);
	a->value = buf_init(LIMIT_ANSWER_HEAD_BYTES);
	return a;
}

struct answer *answer_free(struct answer *a)
{
	if (!a)
		return NULL;
	buf_done(&a->facts.headers);
	buf_done(&a->name);
	buf_done(&a->value);
	free(a);
	return NULL;
}

const struct answer_facts *answer_facts(const struct answer *a)
{
	return &a->facts;
}

/* Lets the parser have the bytes. Returns what it took, or -EPROTO. */
static ssize_t run(struct answer *a, const char *data, size_t len)
{
	llhttp_errno_t r;

	llhttp_resume(&a->parser);
	r = llhttp_execute(&a->parser, data, len);
	if (r == HPE_OK)
		return (ssize_t)len;
	if (r == HPE_PAUSED || r == HPE_PAUSED_UPGRADE)
		return llhttp_get_error_pos(&a->parser) - data;
	if (!a->facts.why)
		a->facts.why = llhttp_get_error_reason(&a->parser);
	return -EPROTO;
}

ssize_t answer_head(struct answer *a, const void *data, size_t len)
{
	ssize_t n = run(a, data, len);

	if (n < 0)
		return n;
	a->head_bytes += (size_t)n;
	if (a->head_bytes > LIMIT_ANSWER_HEAD_BYTES) {
		a->facts.why = "its head is too long";
		return -EPROTO;
	}
	return n;
}

ssize_t answer_body(struct answer *a, const void *data, size_t len, void *dst, size_t *ret_len)
{
	ssize_t n = 0;

	a->dst = dst;
	a->dst_len = 0;
	if (!a->facts.over)
		n = run(a, data, len);
	*ret_len = a->dst_len;
	return n;
}

int answer_end(struct answer *a)
{
	if (!a->facts.over && run(a, "", 0) < 0)
		return -EPROTO;
	if (!a->facts.over)
		(void)llhttp_finish(&a->parser); /* on_end() is called where this may be the end */
	if (a->facts.over)
		return 0;
	a->facts.why = a->facts.head ? "it ends too early" : "it ends before it has begun";
	return -EPROTO;
}
