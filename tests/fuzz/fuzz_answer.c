/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of servers: the first byte says what was asked for, and in which pieces the rest comes. */
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "http/answer.h"
#include "http/headers.h"

static void check(const struct answer_facts *facts, size_t body)
{
	_cleanup_buf_ struct buf again = buf_init(LIMIT_ANSWER_HEAD_BYTES);
	struct http_header h;

	assert(facts->status >= 100 && facts->status <= 999);
	assert(!facts->over || facts->body_len <= 0 || body == 0 ||
		body == (size_t)facts->body_len);
	for (size_t pos = 0; headers_next(&facts->headers, &pos, &h);) {
		if (headers_add(&again, h.name, strlen(h.name), h.value, strlen(h.value)) < 0)
			abort();
	}
	assert(again.len == facts->headers.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dst[1 << 20];
	struct answer *a = answer_new(size && (data[0] & 1), size && (data[0] & 2));
	const struct answer_facts *facts = answer_facts(a);
	size_t piece = size ? 1 + (data[0] >> 2) * 16 : 1, body = 0, n;
	ssize_t r = 0;

	for (size_t at = 1; at < size && !facts->over && !facts->upgraded && r >= 0;
		at += (size_t)r) {
		size_t len = MIN(piece, size - at);

		if (facts->head) {
			r = answer_body(a, data + at, len, dst, &n);
			assert(r < 0 || n <= (size_t)r);
			body += r < 0 ? 0 : n;
		} else {
			r = answer_head(a, data + at, len);
		}
		assert(r < 0 ? facts->why != NULL : (size_t)r <= len);
		/* Between head and body nothing is taken, but only once. */
	}
	if (r >= 0 && !facts->upgraded && answer_end(a) == 0)
		check(facts, body);
	answer_free(a);
	return 0;
}
