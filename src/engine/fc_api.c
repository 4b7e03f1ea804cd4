/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 over Firecracker's socket, as much of it as its API speaks. */
#include "engine/fc_api.h"

#include <errno.h>
#include <llhttp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "engine/unix_socket.h"

enum {
	ANSWER_BYTES_MAX = 64 << 10,
	REQUEST_BYTES_MAX = 16 << 10,
};

struct parse {
	llhttp_t parser;
	const char *body; /* in the data; NULL: none yet */
	size_t body_len;
	bool whole;
};

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
	struct parse *p = (struct parse *)parser;

	if (p->body)
		return -1; /* in pieces: Firecracker sends none of these */
	p->body = at;
	p->body_len = len;
	return 0;
}

static int on_end(llhttp_t *parser)
{
	((struct parse *)parser)->whole = true;
	return HPE_PAUSED;
}

void fc_answer_done(struct fc_answer *a)
{
	json_decref(a->json);
	a->json = NULL;
}

int fc_api_parse(const char *data, size_t len, struct fc_answer *ret)
{
	static const llhttp_settings_t settings = {
		.on_body = on_body,
		.on_message_complete = on_end,
	};
	struct parse p = {.body = NULL};
	llhttp_errno_t r;

	llhttp_init(&p.parser, HTTP_RESPONSE, &settings);
	r = llhttp_execute(&p.parser, data, len);
	if ((r != HPE_OK && r != HPE_PAUSED) || len > ANSWER_BYTES_MAX)
		return -EPROTO;
	if (!p.whole)
		return 0;
	*ret = (struct fc_answer){.status = p.parser.status_code};
	ret->json = p.body ? json_loadb(p.body, p.body_len, 0, NULL) : NULL;
	if (!json_is_object(ret->json))
		fc_answer_done(ret);
	return 1;
}

static int send_request(int fd, const char *method, const char *path, const json_t *body)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : strdup("");
	char request[REQUEST_BYTES_MAX];
	int n;

	if (!text)
		return -ENOMEM;
	n = snprintf(request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		method, path, strlen(text), text);
	if (n >= (int)sizeof(request))
		return -E2BIG;
	/* Far less than a socket's buffer. */
	return send(fd, request, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -EPIPE;
}

static int read_answer(int fd, int64_t deadline_ms, struct fc_answer *ret)
{
	_cleanup_buf_ struct buf in = buf_init(2 * ANSWER_BYTES_MAX);
	int r;

	while ((r = fc_api_parse(in.data ? in.data : "", in.len, ret)) == 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = deadline_ms - clock_mono_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) < 0 && errno != EINTR)
			return -errno;
		r = buf_reserve(&in, 4096);
		if (r < 0)
			return r;
		n = recv(fd, in.data + in.len, 4096, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return -EPIPE;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		in.len += n > 0 ? (size_t)n : 0;
	}
	return r < 0 ? r : 0;
}

static int refused(const char *method, const char *path, const struct fc_answer *a, struct err *err)
{
	const char *why = json_string_value(json_object_get(a->json, "fault_message"));
	char text[200];

	why = why ? why : "no reason given";
	return err_set(err, ERR_ENGINE, -EREMOTEIO, "Firecracker refused %s %s: %s", method, path,
		str_printable(text, sizeof(text), why, strlen(why)));
}

int fc_api_call(int dir_fd, const char *method, const char *path, json_t *body, int timeout_ms,
	json_t **ret, struct err *err)
{
	CLEANUP(fc_answer_done) struct fc_answer answer = {0};
	int64_t deadline = clock_mono_ms() + timeout_ms;
	_cleanup_close_ int fd = unix_connect(dir_fd, "run/api.sock", SOCK_STREAM);
	int r = fd < 0 ? fd : send_request(fd, method, path, body);

	json_decref(body);
	if (r == 0)
		r = read_answer(fd, deadline, &answer);
	if (r < 0)
		return err_set(err, ERR_ENGINE, r == -ECONNREFUSED ? -EPIPE : r,
			"Firecracker did not answer %s %s: %s", method, path, strerror(-r));
	if (answer.status < 200 || answer.status > 299)
		return refused(method, path, &answer, err);
	if (ret)
		*ret = json_incref(answer.json);
	return 0;
}
