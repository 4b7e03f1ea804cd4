/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket to the daemon. libcurl connects; the handshake is ours, for its own WebSockets are not in every version. */
#include "cli/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/client_internal.h"

enum {
	KEY_BYTES = 16,
	HEAD_BYTES_MAX = 64 << 10,
	/* A sandbox may have to be woken, a server in it may be slow to take the connection. */
	ANSWER_MS = 60 * 1000,
	TURN_BYTES = 64 << 10,
	ANSWER_BYTES_MAX = 1 << 20,
};

struct channel {
	const struct client *client; /* borrowed */
	CURL *easy;                  /* owned */
	int fd;                      /* the handle's */
	int interrupt_fd;            /* borrowed; or -1 */
	struct websocket *ws;        /* owned */
	char why[CURL_ERROR_SIZE];
};

struct channel *channel_free(struct channel *c)
{
	if (!c)
		return NULL;
	websocket_free(c->ws);
	curl_easy_cleanup(c->easy);
	free(c);
	return NULL;
}

struct websocket *channel_websocket(struct channel *c)
{
	return c->ws;
}

int channel_fd(const struct channel *c)
{
	return c->fd;
}

bool channel_idle(const struct channel *c)
{
	return websocket_out(c->ws)->len == 0;
}

static int err_lost(const struct channel *c, struct err *err)
{
	return err_set(err, ERR_INTERNAL, -ECONNRESET, "the connection to the daemon at %s is lost",
		client_api(c->client));
}

/* ---- turns ---- */

/* 1, 0, or -ECONNRESET. */
static int send_out(struct channel *c)
{
	struct buf *out = websocket_out(c->ws);
	CURLcode code;
	size_t n;

	if (out->len == 0)
		return 0;
	code = curl_easy_send(c->easy, out->data, out->len, &n);
	if (code != CURLE_OK)
		return code == CURLE_AGAIN ? 0 : -ECONNRESET;
	buf_consume(out, n);
	return 1;
}

/* Over 0 bytes; 0 where there are none now; -ECONNRESET at the end. */
static ssize_t receive(struct channel *c, void *dst, size_t max)
{
	size_t n = 0;
	CURLcode code = curl_easy_recv(c->easy, dst, max, &n);

	if (code == CURLE_AGAIN)
		return 0;
	return code == CURLE_OK && n > 0 ? (ssize_t)n : -ECONNRESET;
}

int channel_turn(struct channel *c, bool reads, struct err *err)
{
	char data[TURN_BYTES];
	int sent = send_out(c);
	ssize_t n = 0;

	if (websocket_over(c->ws) && (channel_idle(c) || sent < 0))
		return -ESHUTDOWN;
	if (sent < 0)
		return err_lost(c, err);
	if (reads && !websocket_over(c->ws))
		n = receive(c, data, sizeof(data));
	if (n < 0)
		return err_lost(c, err);
	websocket_feed(c->ws, data, (size_t)n);
	return sent | (n > 0);
}

/* ---- the handshake ---- */

static int connect_to(struct channel *c, const char *path, struct buf *headers, struct err *err)
{
	struct curl_slist *list = NULL;
	curl_socket_t fd = CURL_SOCKET_BAD;
	CURLcode code;
	int r = 0;

	c->easy = curl_easy_init();
	if (!c->easy)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	client_prepare(c->client, path, c->easy, &list);
	curl_easy_setopt(c->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(c->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->why);
	for (const struct curl_slist *l = list; l && r == 0; l = l->next) {
		if (!str_starts_with(l->data, "Expect:"))
			r = buf_appendf(headers, "%s\r\n", l->data);
	}
	code = curl_easy_perform(c->easy);
	curl_slist_free_all(list);
	if (r < 0)
		return err_set_errno(err, r, "the API key is too long");
	if (code == CURLE_OK)
		code = curl_easy_getinfo(c->easy, CURLINFO_ACTIVESOCKET, &fd);
	if (code != CURLE_OK)
		return client_transport_error(c->client, code, c->why, err);
	c->fd = fd;
	return 0;
}

static int wait_for(const struct channel *c, short events, int64_t deadline_ms, struct err *err)
{
	struct pollfd p[] = {
		{.fd = c->fd, .events = events},
		{.fd = c->interrupt_fd, .events = POLLIN},
	};
	int64_t left = deadline_ms - clock_mono_ms();
	int n = left > 0 ? poll(p, ARRAY_SIZE(p), (int)left) : 0;

	if (n > 0 && p[1].revents)
		return err_set(err, ERR_INTERNAL, -ECANCELED, "interrupted");
	if (n == 0)
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "no answer from %s",
			client_api(c->client));
	return 0;
}

static int send_all(struct channel *c, const struct buf *request, int64_t deadline_ms,
	struct err *err)
{
	size_t sent = 0;
	int r = 0;

	while (r == 0 && sent < request->len) {
		size_t n = 0;
		CURLcode code =
			curl_easy_send(c->easy, request->data + sent, request->len - sent, &n);

		sent += n;
		if (code == CURLE_AGAIN)
			r = wait_for(c, POLLOUT, deadline_ms, err);
		else if (code != CURLE_OK)
			return client_transport_error(c->client, code, "", err);
	}
	return r;
}

/* Reads until `text` has `len` bytes, or (len 0) a whole head. *ret_end is then where that ends. */
static int read_until(struct channel *c, struct buf *text, size_t len, size_t *ret_end,
	int64_t deadline_ms, struct err *err)
{
	for (;;) {
		char data[4096];
		const char *end = text->data ? strstr(text->data, "\r\n\r\n") : NULL;
		ssize_t n;
		int r = 0;

		*ret_end = len ? len : (size_t)(end ? end + 4 - text->data : 0);
		if (*ret_end && text->len >= *ret_end)
			return 0;
		n = receive(c, data, sizeof(data));
		if (n < 0)
			return client_transport_error(c->client, CURLE_GOT_NOTHING, "", err);
		if (n > 0)
			r = buf_append(text, data, (size_t)n);
		if (r < 0)
			return err_set_errno(err, r, "the daemon's answer is too large");
		if (n == 0)
			r = wait_for(c, POLLIN, deadline_ms, err);
		if (r < 0)
			return r;
	}
}

/* A header's value up to the end of its line; NULL where there is none. */
static const char *find_header(const char *head, const char *name, size_t *ret_len)
{
	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
		size_t len = strlen(name);

		line += 2;
		if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
			line += len + 1;
			line += strspn(line, " \t");
			*ret_len = strcspn(line, " \t\r");
			return line;
		}
	}
	return NULL;
}

static bool has_header(const char *head, const char *name, const char *want)
{
	size_t len;
	const char *value = find_header(head, name, &len);

	return value && len == strlen(want) && strncasecmp(value, want, len) == 0;
}

/* An answer that is no 101: its body says why. */
static int refused(struct channel *c, long status, struct buf *text, size_t head_len,
	int64_t deadline_ms, struct err *err)
{
	size_t len = 0, end;
	const char *value = find_header(text->data, "Content-Length", &len);
	char number[24];
	uint64_t body = 0;

	if (value && len < sizeof(number)) {
		(void)snprintf(number, sizeof(number), "%.*s", (int)len, value);
		(void)parse_u64(number, 0, ANSWER_BYTES_MAX, &body); /* 0: nothing to show */
	}
	if (body && read_until(c, text, head_len + body, &end, deadline_ms, err) < 0)
		return err->os;
	buf_consume(text, head_len);
	return client_http_error(c->client, status, text, err);
}

static int read_answer(struct channel *c, const char *key, int64_t deadline_ms, struct err *err)
{
	_cleanup_buf_ struct buf text = buf_init(HEAD_BYTES_MAX + ANSWER_BYTES_MAX);
	char accept[WEBSOCKET_ACCEPT_SIZE];
	uint64_t status = 0;
	char number[4] = "";
	size_t head_len;
	int r = read_until(c, &text, 0, &head_len, deadline_ms, err);

	if (r < 0)
		return r;
	if (str_starts_with(text.data, "HTTP/1.1 ") && head_len > 12)
		(void)snprintf(number, sizeof(number), "%.3s", text.data + 9);
	if (parse_u64(number, 100, 599, &status) < 0)
		return err_set(err, ERR_INTERNAL, -EPROTO, "%s speaks no HTTP: is it pandastack?",
			client_api(c->client));
	if (status != 101)
		return refused(c, (long)status, &text, head_len, deadline_ms, err);
	websocket_accept(accept, key);
	text.data[head_len - 1] = '\0';
	if (!has_header(text.data, "Upgrade", "websocket") ||
		!has_header(text.data, "Sec-WebSocket-Accept", accept))
		return err_set(err, ERR_INTERNAL, -EPROTO,
			"%s answers as no WebSocket does: is a proxy in between?",
			client_api(c->client));
	websocket_feed(c->ws, text.data + head_len, text.len - head_len);
	return 0;
}

static int shake_hands(struct channel *c, const char *path, const struct buf *headers,
	struct err *err)
{
	_cleanup_buf_ struct buf request = buf_init(HEAD_BYTES_MAX + LIMIT_JSON_BODY_BYTES);
	int64_t deadline = clock_mono_ms() + ANSWER_MS;
	char key[BASE64_LENGTH(KEY_BYTES) + 1];
	uint8_t random[KEY_BYTES];
	const char *host = strstr(client_api(c->client), "://") + 3;
	int r;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_set_errno(err, -errno, "no random bytes");
	base64_encode(key, random, sizeof(random));
	r = buf_appendf(&request,
		"GET %s HTTP/1.1\r\nHost: %.*s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%.*s\r\n",
		path, (int)strcspn(host, "/"), host, key, (int)headers->len,
		headers->data ? headers->data : "");
	if (r < 0)
		return err_set_errno(err, r, "the request is too long");
	r = send_all(c, &request, deadline, err);
	return r < 0 ? r : read_answer(c, key, deadline, err);
}

int channel_open(const struct client *client, const char *path, const struct websocket_ops *ops,
	void *user, int interrupt_fd, struct channel **ret, struct err *err)
{
	_cleanup_channel_ struct channel *c = xnew(struct channel);
	_cleanup_buf_ struct buf headers = buf_init(HEAD_BYTES_MAX);
	int r;

	c->client = client;
	c->fd = -1;
	c->interrupt_fd = interrupt_fd;
	c->ws = websocket_new(WEBSOCKET_CLIENT, LIMIT_WEBSOCKET_TEXT_BYTES, ops, user);
	r = connect_to(c, path, &headers, err);
	if (r == 0)
		r = shake_hands(c, path, &headers, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(&c);
	return 0;
}
