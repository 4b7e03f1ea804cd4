/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pandastack mcp`: an MCP server on stdin and stdout, for clients that start one.
 *
 * Theory of operation
 * -------------------
 * The server is the daemon's POST /mcp; this carries messages to it and back. A line of stdin is a message, which becomes a
 * request of its own, so that many can be under way; what comes back, an object or a stream of events, is written line by line. What
 * the other transport says in another way is translated: the headers that repeat a request's method and name, a cancellation
 * (here a message, there the end of the connection), and the session, which here is the life of the process: all requests
 * name it, and at the end it is deleted, with its sandbox.
 *
 * The client on the other side is trusted as the user is, the daemon as its answers are: bounded, and JSON or dropped.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"
#include "cli/client_internal.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/sse.h"
#include "cli/text.h"

enum {
	READ_BYTES = 64 * 1024,
	SESSION_BYTES = 16,
	WAIT_MS = 60 * 1000, /* for whatever comes first; it is waited for again */
	END_TIMEOUT_MS = 10 * 1000,
	CANNOT_SERVE = -32603, /* JSON-RPC: internal error */
	NOT_JSON = -32700,
};

struct bridge {
	struct client *client; /* owned */
	CURLM *multi;          /* owned */
	struct list posts;     /* those that are under way */
	struct buf line;       /* of stdin: the beginning of a message */
	char session[2 * SESSION_BYTES + 1];
	struct err *err; /* borrowed; of what ends all */
	bool over;       /* stdin has ended */
};

/* A message on its way, and its answer. */
struct post {
	struct list node;
	struct bridge *bridge;      /* borrowed */
	json_t *id;                 /* owned; NULL: nobody waits for an answer */
	char *body;                 /* owned */
	CURL *easy;                 /* owned */
	struct curl_slist *headers; /* owned */
	struct sse sse;             /* where the answer is a stream */
	struct buf answer;          /* where it is not */
	bool answered;              /* a message for `id` was written */
	char why[CURL_ERROR_SIZE];
};

static void post_free(struct post *p)
{
	list_remove(&p->node);
	(void)curl_multi_remove_handle(p->bridge->multi, p->easy); /* fails only if it is not in */
	curl_easy_cleanup(p->easy);
	curl_slist_free_all(p->headers);
	json_decref(p->id);
	free(p->body);
	sse_done(&p->sse);
	buf_done(&p->answer);
	free(p);
}

static void end_posts(struct bridge *b)
{
	while (!list_empty(&b->posts))
		post_free(container_of(b->posts.next, struct post, node));
}

static void bridge_done(struct bridge *b)
{
	end_posts(b);
	curl_multi_cleanup(b->multi);
	buf_done(&b->line);
	(void)client_free(b->client);
}
#define _cleanup_bridge_ CLEANUP(bridge_done)

/* ---- to stdout ---- */

/* A message on a line of its own. Only between its tokens may JSON hold line breaks. */
static int write_line(struct bridge *b, const char *text, size_t len)
{
	bool ok = true;

	for (size_t i = 0; i < len && ok; i++)
		ok = putc_unlocked(text[i] == '\n' || text[i] == '\r' ? ' ' : text[i], stdout) !=
			EOF;
	if (ok && putchar('\n') != EOF && fflush(stdout) == 0)
		return 0;
	return err_set(b->err, ERR_INTERNAL, -EPIPE, "cannot write");
}

static int write_error(struct bridge *b, json_t *id, int code, const char *text)
{
	json_t *message = json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id,
		"error", "code", code, "message", text);
	_cleanup_free_ char *line = message ? json_dumps(message, JSON_COMPACT) : NULL;

	json_decref(message);
	return line ? write_line(b, line, strlen(line)) : -ENOMEM;
}

/* What the daemon sent, if it is a message at all. */
static int write_message(struct post *p, const char *text, size_t len)
{
	json_t *message = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
	int r = 0;

	if (json_object_get(message, "jsonrpc")) {
		p->answered |= !json_object_get(message, "method");
		r = write_line(p->bridge, text, len);
	}
	json_decref(message);
	return r;
}

static int on_event(const struct sse_event *event, void *user)
{
	return write_message(user, event->data, event->len);
}

static size_t on_write(char *data, size_t size, size_t n, void *user)
{
	struct post *p = user;
	const char *type = NULL;
	int r;

	n *= size;
	(void)curl_easy_getinfo(p->easy, CURLINFO_CONTENT_TYPE, &type); /* stays NULL on failure */
	if (type && str_starts_with(type, "text/event-stream"))
		r = sse_feed(&p->sse, data, n, on_event, p);
	else
		r = buf_append(&p->answer, data, n);
	return r < 0 ? 0 : n;
}

/* It has its answer, or a reason why not. */
static int finish(struct post *p, CURLcode code)
{
	struct bridge *b = p->bridge;
	struct err why = {0};
	long status = 0;
	int r = 0;

	(void)curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 on failure */
	if (p->answer.len)
		r = write_message(p, p->answer.data, p->answer.len);
	if (r < 0 || p->answered || !p->id)
		return r;
	if (status >= 300)
		(void)client_http_error(b->client, status, &p->answer, &why);
	else
		(void)client_transport_error(b->client,
			code == CURLE_OK ? CURLE_PARTIAL_FILE : code, p->why, &why);
	return write_error(b, p->id, CANNOT_SERVE, err_msg(&why));
}

static int finish_some(struct bridge *b)
{
	CURLMsg *msg;
	int left, r = 0;

	while (r == 0 && (msg = curl_multi_info_read(b->multi, &left))) {
		struct post *p = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&p);
		r = finish(p, msg->data.result);
		post_free(p);
	}
	return r;
}

/* ---- from stdin ---- */

/* A header that may hold any text (Streamable HTTP, "Value Encoding"). */
static void add_encoded(struct curl_slist **headers, const char *name, const char *value)
{
	_cleanup_free_ char *encoded = NULL, *text = NULL;
	size_t len = strlen(value);
	bool plain = len > 0 && value[0] != ' ' && value[len - 1] != ' ' &&
		!str_starts_with(value, "=?base64?");

	for (size_t i = 0; i < len; i++)
		plain = plain && value[i] >= ' ' && value[i] <= '~';
	if (plain) {
		client_add_header(headers, name, value);
		return;
	}
	text = malloc(BASE64_LENGTH(len) + 1);
	if (!text)
		abort();
	base64_encode(text, value, len);
	encoded = text_format("=?base64?%s?=", text);
	client_add_header(headers, name, encoded);
}

/* A modern request says in headers, too, what it is. */
static void add_repeated(struct curl_slist **headers, const json_t *message)
{
	json_t *params = json_object_get(message, "params");
	json_t *version = json_object_get(json_object_get(params, "_meta"),
		"io.modelcontextprotocol/protocolVersion");
	const char *method = json_string_value(json_object_get(message, "method"));
	json_t *name = json_object_get(params, "name");

	if (!json_is_string(version) || !method)
		return;
	if (!json_is_string(name))
		name = json_object_get(params, "uri");
	add_encoded(headers, "MCP-Protocol-Version", json_string_value(version));
	add_encoded(headers, "Mcp-Method", method);
	if (json_is_string(name))
		add_encoded(headers, "Mcp-Name", json_string_value(name));
}

static int start(struct bridge *b, const json_t *message, const char *line, size_t len)
{
	struct post *p = xnew(struct post);

	list_append(&b->posts, &p->node);
	p->bridge = b;
	p->id = json_incref(json_object_get(message, "id"));
	p->body = strndup(line, len);
	p->easy = curl_easy_init();
	p->sse = sse_init(LIMIT_ANSWER_BYTES);
	p->answer = buf_init(LIMIT_ANSWER_BYTES);
	if (!p->body || !p->easy)
		abort();
	client_prepare(b->client, "/mcp", p->easy, &p->headers);
	client_add_header(&p->headers, "Content-Type", "application/json");
	client_add_header(&p->headers, "Accept", "application/json, text/event-stream");
	client_add_header(&p->headers, "Mcp-Session-Id", b->session);
	add_repeated(&p->headers, message);
	curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
	curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
	curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, p->body);
	curl_easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(p->easy, CURLOPT_WRITEDATA, p);
	curl_easy_setopt(p->easy, CURLOPT_ERRORBUFFER, p->why);
	curl_easy_setopt(p->easy, CURLOPT_PRIVATE, p);
	if (curl_multi_add_handle(b->multi, p->easy) != CURLM_OK)
		return err_set(b->err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return 0;
}

/* Ends the request of that id, if it is under way: nothing more is said about it. */
static void cancel(struct bridge *b, const json_t *message)
{
	json_t *id = json_object_get(json_object_get(message, "params"), "requestId");

	for (struct list *it = b->posts.next; it != &b->posts; it = it->next) {
		struct post *p = container_of(it, struct post, node);

		if (p->id && json_equal(p->id, id)) {
			post_free(p);
			return;
		}
	}
}

static int take_message(struct bridge *b, const char *line, size_t len)
{
	json_t *message;
	const char *method;
	int r = 0;

	if (len == 0)
		return 0;
	message = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	method = json_string_value(json_object_get(message, "method"));
	if (!message)
		r = write_error(b, NULL, NOT_JSON, "a line is not valid JSON");
	else if (method && strcmp(method, "notifications/cancelled") == 0)
		cancel(b, message);
	else
		r = start(b, message, line, len);
	json_decref(message);
	return r;
}

static int take_lines(struct bridge *b)
{
	char *end;
	int r = 0;

	while (r == 0 && b->line.len && (end = memchr(b->line.data, '\n', b->line.len))) {
		size_t len = (size_t)(end - b->line.data);

		r = take_message(b, b->line.data, len);
		buf_consume(&b->line, len + 1);
	}
	return r;
}

static int read_some(struct bridge *b)
{
	ssize_t n;

	if (buf_reserve(&b->line, READ_BYTES) < 0)
		return err_set(b->err, ERR_TOO_LARGE, -EMSGSIZE, "a message is longer than %zu MiB",
			LIMIT_JSON_BODY_BYTES >> 20);
	n = read(STDIN_FILENO, b->line.data + b->line.len, READ_BYTES);
	if (n < 0)
		return errno == EINTR ? 0 : err_set_errno(b->err, -errno, "cannot read");
	b->over = n == 0;
	b->line.len += (size_t)n;
	return take_lines(b);
}

/* ---- all of it ---- */

/* Until stdin ends, or a signal comes. */
static int serve(struct bridge *b)
{
	struct curl_waitfd extra[] = {
		{.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN},
		{.fd = client_signal_fd(b->client), .events = CURL_WAIT_POLLIN},
	};
	int running, r;

	for (;;) {
		if (curl_multi_perform(b->multi, &running) != CURLM_OK)
			return err_set(b->err, ERR_INTERNAL, -EIO, "libcurl failed");
		r = finish_some(b); /* before the wait: nothing may come after the last one */
		if (r < 0 || b->over)
			break;
		if (curl_multi_poll(b->multi, extra, ARRAY_SIZE(extra), WAIT_MS, NULL) != CURLM_OK)
			return err_set(b->err, ERR_INTERNAL, -EIO, "libcurl failed");
		if (extra[1].revents)
			return err_set(b->err, ERR_INTERNAL, -ECANCELED, "interrupted");
		r = extra[0].revents ? read_some(b) : 0;
		if (r < 0)
			break;
	}
	return r;
}

/* The signal that ended all is still to be read. */
static int on_signal(int signal, void *user)
{
	return 0;
}

/* The session's sandbox goes with it. Where no daemon is there any more, nobody is left to be told. */
static void end_session(struct bridge *b)
{
	const struct client_request request = {
		.method = "DELETE",
		.path = "/mcp",
		.session = b->session,
		.on_signal = on_signal,
		.timeout_ms = END_TIMEOUT_MS,
	};
	struct err why = {0};

	(void)client_send(b->client, &request, NULL, &why);
}

int cmd_mcp(int argc, char **argv, struct err *err)
{
	_cleanup_bridge_ struct bridge b = {.err = err};
	const struct opts_spec spec = {
		.usage = "mcp",
		.about =
			"Serves the Model Context Protocol on stdin and stdout, for a client that\n"
			"starts it: tools that run code and commands in a sandbox. The sandbox is\n"
			"made with the first call and ends with this program. Needs a daemon.\n",
		.examples = "  claude mcp add pandastack -- pandastack mcp\n",
	};
	uint8_t random[SESSION_BYTES];
	int r = opts_parse(&spec, &argc, &argv, err);

	list_init(&b.posts);
	if (r <= 0)
		return r;
	b.line = buf_init(LIMIT_JSON_BODY_BYTES + READ_BYTES);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_set_errno(err, -errno, "no random numbers");
	str_hex(b.session, random, sizeof(random));
	r = client_new(&b.client, err);
	if (r == 0)
		r = client_catch_signals(b.client, err);
	if (r < 0)
		return r;
	b.multi = curl_multi_init();
	if (!b.multi)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	r = serve(&b);
	end_posts(&b); /* before the sandbox that they are in */
	end_session(&b);
	return r;
}
