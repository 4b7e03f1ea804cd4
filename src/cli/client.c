/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's API as one blocking call per request, over libcurl. */
#include "cli/client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client_internal.h"
#include "cli/config.h"
#include "cli/text.h"
#include "version.h"

enum {
	CONNECT_TIMEOUT_MS = 10 * 1000,
	JSON_TIMEOUT_MS = 180 * 1000,
	POLL_MS = 200, /* how often progress is shown while nothing happens */
	TRANSFER_BUFFER_BYTES = 512 * 1024,
};

struct client {
	struct config config;
	bool direct; /* the daemon is on this machine: no proxy */
	int signal_fd;
};

/* One request under way. */
struct transfer {
	struct client *client;                /* borrowed */
	const struct client_request *request; /* borrowed */
	CURL *easy;                           /* owned */
	CURLM *multi;                         /* owned */
	struct curl_slist *headers;           /* owned */
	char *body;                           /* owned */
	struct buf answer; /* the whole answer, unless it is a success for on_data */
	struct err *err;   /* borrowed */
	int failed;        /* negative errno of a callback; *err is set */
	char why[CURL_ERROR_SIZE];
};

static void transfer_done(struct transfer *t)
{
	if (t->multi && t->easy)
		(void)curl_multi_remove_handle(t->multi, t->easy); /* fails only if it is not in */
	curl_easy_cleanup(t->easy);
	curl_multi_cleanup(t->multi);
	curl_slist_free_all(t->headers);
	free(t->body);
	buf_done(&t->answer);
}
#define _cleanup_transfer_ CLEANUP(transfer_done)

/* A proxy of the environment is not meant for a daemon on this machine, nor is the key for it. */
static bool is_loopback(const char *api)
{
	CURLU *url = curl_url();
	char *host = NULL;
	bool loopback;

	loopback = url && curl_url_set(url, CURLUPART_URL, api, 0) == CURLUE_OK &&
		curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
		(strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
			str_starts_with(host, "127."));
	curl_free(host);
	curl_url_cleanup(url);
	return loopback;
}

int client_new(struct client **ret, struct err *err)
{
	_cleanup_client_ struct client *client = xnew(struct client);
	int r;

	(void)signal(SIGPIPE, SIG_IGN); /* writes fail with -EPIPE instead, and we clean up */
	client->signal_fd = -1;
	r = config_load(&client->config, err);
	if (r < 0)
		return r;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ERR_INTERNAL, -EIO, "cannot initialise libcurl");
	client->direct = is_loopback(client->config.api);
	*ret = steal_ptr(&client);
	return 0;
}

struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;
	cleanup_close(&client->signal_fd);
	config_done(&client->config);
	free(client);
	return NULL;
}

const char *client_api(const struct client *client)
{
	return client->config.api;
}

int client_catch_signals(struct client *client, struct err *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;
	sigset_t set;

	(void)sigemptyset(&set); /* these three cannot fail with valid signals */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		(void)sigaction(signals[i], NULL, &action);
		if (action.sa_handler != SIG_IGN) /* nohup stays nohup */
			(void)sigaddset(&set, signals[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set_errno(err, -errno, "cannot block signals");
	client->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (client->signal_fd < 0)
		return err_set_errno(err, -errno, "cannot wait for signals");
	return 0;
}

int client_signal_fd(const struct client *client)
{
	return client->signal_fd;
}

static size_t on_write(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	long status = 0;
	int r;

	n *= size;
	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 on failure */
	if (t->request->on_data && status / 100 == 2) {
		t->failed = t->request->on_data(data, n, t->request->data_user, t->err);
		return t->failed < 0 ? 0 : n;
	}
	r = buf_append(&t->answer, data, n);
	if (r < 0)
		t->failed = err_set_errno(t->err, r, "the daemon's answer is too large");
	return r < 0 ? 0 : n;
}

static size_t on_read(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	ssize_t got;

	do
		got = read(t->request->upload_fd, data, size * n);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		t->failed = err_set_errno(t->err, -errno, "cannot read what is to be sent");
		return CURL_READFUNC_ABORT;
	}
	return (size_t)got;
}

static int on_progress(void *user, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
	curl_off_t up)
{
	struct transfer *t = user;

	if (t->request->uploads)
		progress_update(t->request->progress, (uint64_t)up, (uint64_t)up_all);
	else if (t->request->on_data)
		progress_update(t->request->progress, (uint64_t)down, (uint64_t)down_all);
	else
		progress_update(t->request->progress, 0, 0);
	return 0;
}

void client_add_header(struct curl_slist **headers, const char *name, const char *value)
{
	_cleanup_free_ char *line = text_format("%s: %s", name, value);
	struct curl_slist *more = curl_slist_append(*headers, line);

	if (!more)
		abort();
	*headers = more;
}

static int prepare_body(struct transfer *t)
{
	const struct client_request *req = t->request;

	if (req->uploads) {
		client_add_header(&t->headers, "Content-Type", "application/octet-stream");
		curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->upload_bytes);
		curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
	} else if (req->body) {
		t->body = json_dumps(req->body, JSON_COMPACT);
		if (!t->body)
			return err_set(t->err, ERR_INTERNAL, -ENOMEM, "out of memory");
		client_add_header(&t->headers, "Content-Type", "application/json");
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(t->body));
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body);
	} else if (strcmp(req->method, "POST") == 0) {
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, "");
	}
	return 0;
}

/* The results of curl_easy_setopt() are ignored: it fails for unknown options and without memory
 * for a copy, and then the request fails, too. */
void client_prepare(const struct client *client, const char *path, CURL *easy,
	struct curl_slist **headers)
{
	const struct config *config = &client->config;
	_cleanup_free_ char *url = text_format("%s%s", config->api, path);

	client_add_header(headers, "Expect", ""); /* do not wait for "100 Continue" */
	if (config->key) {
		_cleanup_free_ char *value = text_format("Bearer %s", config->key);

		client_add_header(headers, "Authorization", value);
	}
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	if (client->direct)
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

static int prepare(struct transfer *t)
{
	const struct client_request *req = t->request;

	t->easy = curl_easy_init();
	t->multi = curl_multi_init();
	if (!t->easy || !t->multi)
		return err_set(t->err, ERR_INTERNAL, -ENOMEM, "out of memory");
	client_prepare(t->client, req->path, t->easy, &t->headers);
	client_add_header(&t->headers, "Accept", req->accept ? req->accept : "application/json");
	if (req->session)
		client_add_header(&t->headers, "Mcp-Session-Id", req->session);
	curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)req->timeout_ms);
	curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, (long)TRANSFER_BUFFER_BYTES);
	curl_easy_setopt(t->easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)TRANSFER_BUFFER_BYTES);
	curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->why);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	if (req->progress) {
		curl_easy_setopt(t->easy, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(t->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
		curl_easy_setopt(t->easy, CURLOPT_XFERINFODATA, t);
	}
	if (prepare_body(t) < 0)
		return t->err->os;
	curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, req->method);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	if (curl_multi_add_handle(t->multi, t->easy) != CURLM_OK)
		return err_set(t->err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return 0;
}

static int take_signals(struct transfer *t)
{
	const struct client_request *req = t->request;
	struct signalfd_siginfo info;
	int r = 0;

	while (r == 0 && read(t->client->signal_fd, &info, sizeof(info)) == sizeof(info))
		r = req->on_signal ? req->on_signal((int)info.ssi_signo, req->signal_user)
				   : -ECANCELED;
	return r < 0 ? err_set(t->err, ERR_INTERNAL, r, "interrupted") : 0;
}

/* Runs the transfer to its end; *ret_code is libcurl's verdict. */
static int run(struct transfer *t, CURLcode *ret_code)
{
	struct curl_waitfd extra = {.fd = t->client->signal_fd, .events = CURL_WAIT_POLLIN};
	unsigned int n_extra = extra.fd >= 0 ? 1 : 0;
	CURLMsg *msg;
	int running = 1, left, r;

	for (;;) {
		if (curl_multi_perform(t->multi, &running) != CURLM_OK)
			return err_set(t->err, ERR_INTERNAL, -EIO, "libcurl failed");
		if (!running)
			break;
		(void)curl_multi_poll(t->multi, &extra, n_extra, POLL_MS,
			NULL); /* we look anyway */
		r = n_extra ? take_signals(t) : 0;
		if (r < 0)
			return r;
	}
	msg = curl_multi_info_read(t->multi, &left);
	if (!msg)
		return err_set(t->err, ERR_INTERNAL, -EIO, "libcurl failed");
	*ret_code = msg->data.result;
	return t->failed;
}

int client_transport_error(const struct client *client, CURLcode code, const char *why,
	struct err *err)
{
	const char *api = client->config.api;

	if (!*why)
		why = curl_easy_strerror(code);
	if (code == CURLE_COULDNT_CONNECT)
		return err_set(err, ERR_INTERNAL, -ECONNREFUSED,
			"no daemon answers at %s: is it running? Start it with: pandastack serve",
			api);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "no answer from %s: %s", api, why);
	if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE)
		return err_set(err, ERR_INTERNAL, -ECONNRESET,
			"the daemon at %s closed the connection before its answer was complete",
			api);
	return err_set(err, ERR_INTERNAL, -EIO, "cannot talk to %s: %s", api, why);
}

static enum err_kind kind_of_status(long status)
{
	for (int kind = ERR_NONE + 1; kind < _ERR_KIND_MAX; kind++) {
		if (err_http_status((enum err_kind)kind) == status)
			return (enum err_kind)kind;
	}
	return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
}

int client_http_error(const struct client *client, long status, const struct buf *answer,
	struct err *err)
{
	json_t *root = json_loadb(answer->data ? answer->data : "", answer->len, 0, NULL);
	const char *text = json_string_value(json_object_get(root, "error"));
	const char *code = json_string_value(json_object_get(root, "code"));
	_cleanup_free_ char *clean = text_clean(text ? text : "");
	enum err_kind kind = code ? err_from_code(code) : kind_of_status(status);
	bool silent = !text;

	json_decref(root);
	if (kind == ERR_UNAUTHORIZED && !client->config.key)
		return err_set(err, kind, -EACCES,
			"no API key: set PANDASTACK_API_KEY, or run this as the user who started "
			"the daemon (it keeps the key in ~/.config/pandastack/config.json)");
	if (kind == ERR_UNAUTHORIZED)
		return err_set(err, kind, -EACCES,
			"the daemon at %s refused the API key: check PANDASTACK_API_KEY, or "
			"api_key in ~/.config/pandastack/config.json",
			client->config.api);
	if (silent)
		return err_set(err, kind, -EIO, "%s answered HTTP %ld: is it pandastack?",
			client->config.api, status);
	if (kind == ERR_NOT_FOUND || kind == ERR_METHOD)
		return err_set(err, kind, -EIO,
			"%s (this program is pandastack " PANDASTACK_VERSION
			"; \"pandastack version\" shows the daemon's too: update the older one)",
			clean);
	return err_set(err, kind, -EIO, "%s", clean);
}

static int take_answer(const struct transfer *t, json_t **ret)
{
	json_t *root = NULL;

	if (t->answer.len) {
		root = json_loadb(t->answer.data, t->answer.len, JSON_ALLOW_NUL | JSON_DECODE_ANY,
			NULL);
		if (!root)
			return err_set(t->err, ERR_INTERNAL, -EPROTO,
				"the answer of %s is not JSON: is it pandastack?",
				t->client->config.api);
	}
	if (ret)
		*ret = root;
	else
		json_decref(root);
	return 0;
}

int client_send(struct client *client, const struct client_request *request, json_t **ret,
	struct err *err)
{
	_cleanup_transfer_ struct transfer t = {
		.client = client,
		.request = request,
		.answer = buf_init(LIMIT_ANSWER_BYTES),
		.err = err,
	};
	CURLcode code = CURLE_OK;
	long status = 0;
	int r;

	r = prepare(&t);
	if (r == 0)
		r = run(&t, &code);
	if (request->progress)
		progress_end(request->progress);
	if (r < 0)
		return r;
	(void)curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 on failure */
	/* A refusal may come, and the connection end, while the body is still being sent. */
	if (status >= 300)
		return client_http_error(client, status, &t.answer, err);
	if (code != CURLE_OK)
		return client_transport_error(client, code, t.why, err);
	return request->on_data ? 0 : take_answer(&t, ret);
}

int client_json(struct client *client, const char *method, const char *path, json_t *body,
	json_t **ret, struct err *err)
{
	const struct client_request request = {
		.method = method,
		.path = path,
		.body = body,
		.timeout_ms = JSON_TIMEOUT_MS,
	};
	int r = client_send(client, &request, ret, err);

	json_decref(body);
	return r;
}

int client_print_json(const json_t *value, size_t flags, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(value, flags | JSON_ENCODE_ANY);

	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	if (isatty(STDOUT_FILENO))
		text_put_json(stdout, text);
	else
		(void)fputs(text, stdout); /* the newline finds a failure out */
	if (fputc('\n', stdout) == EOF || ferror(stdout))
		return err_set_errno(err, -errno, "cannot write");
	return 0;
}

char *client_escape(const char *s)
{
	char *curl_text = curl_easy_escape(NULL, s, 0);
	char *text;

	if (!curl_text)
		abort();
	text = text_format("%s", curl_text);
	curl_free(curl_text);
	return text;
}
