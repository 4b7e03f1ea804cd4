/* SPDX-License-Identifier: Apache-2.0 */
/* A GET into a file. */
#include "mirror/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

enum {
	CONNECT_TIMEOUT_MS = 10 * 1000,
	/* A source that is slower for so long has gone. */
	SLOW_BYTES_PER_SECOND = 1000,
	SLOW_SECONDS = 30,
	DOCUMENT_TIMEOUT_MS = 120 * 1000,
};

struct transfer {
	struct fetch *f; /* borrowed */
	CURL *easy;      /* owned */
	struct digest_state digest;
	bool only_head; /* the rest is of no use */
	int failed;     /* a negative errno of our own */
};

static size_t on_write(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	long status = 0;

	n *= size;
	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status); /* it is there */
	t->only_head = status != 200;
	if (t->only_head)
		return 0; /* the body may never end */
	t->f->held += (int64_t)n;
	digest_update(&t->digest, data, n);
	if (atomic_fetch_sub(t->f->room, (int64_t)n) < (int64_t)n || t->f->held > t->f->max_bytes)
		t->failed = -EFBIG;
	else
		t->failed = fs_write_all(t->f->fd, data, n);
	return t->failed < 0 ? 0 : n;
}

static int on_progress(void *user, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
	curl_off_t up)
{
	struct transfer *t = user;

	if (atomic_load(t->f->stop) || fetch_is_unwanted(t->f->client_fd))
		t->failed = -ECANCELED;
	return t->failed < 0;
}

bool fetch_is_unwanted(int client_fd)
{
	struct pollfd p = {.fd = client_fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

/* To be freed; NULL where there is nothing to say. */
static struct curl_slist *accept_header(const char *type)
{
	_cleanup_free_ char *line = NULL;
	struct curl_slist *headers;

	if (!type)
		return NULL;
	if (asprintf(&line, "Accept: %s", type) < 0)
		abort();
	headers = curl_slist_append(NULL, line);
	if (!headers)
		abort();
	return headers;
}

static void set_options(struct transfer *t, struct curl_slist *headers, char *why)
{
	const struct fetch *f = t->f;
	CURL *e = t->easy;

	/* These fail only without memory, and then the transfer does. */
	(void)curl_easy_setopt(e, CURLOPT_URL, f->url);
	(void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, "pandastack");
	(void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	/* Documents come compressed. What has a digest has that of the bytes that were sent. */
	if (f->accept) {
		(void)curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "");
		(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)DOCUMENT_TIMEOUT_MS);
	}
	if (f->since_s > 0) {
		(void)curl_easy_setopt(e, CURLOPT_TIMECONDITION, (long)CURL_TIMECOND_IFMODSINCE);
		(void)curl_easy_setopt(e, CURLOPT_TIMEVALUE_LARGE, (curl_off_t)f->since_s);
	}
	(void)curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
	if (f->source->user && source_owns(f->source, f->url)) {
		(void)curl_easy_setopt(e, CURLOPT_USERNAME, f->source->user);
		(void)curl_easy_setopt(e, CURLOPT_PASSWORD,
			f->source->password ? f->source->password : "");
	}
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_SECOND);
	(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)SLOW_SECONDS);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_write);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	(void)curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
	(void)curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
	(void)curl_easy_setopt(e, CURLOPT_XFERINFODATA, t);
	(void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
}

static void take_head(struct transfer *t)
{
	const char *redirect = NULL;
	struct curl_header *h;
	long status = 0;

	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 on failure */
	(void)curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &redirect);
	t->f->status = (int)status;
	/* libcurl may have put our credentials into it. */
	t->f->redirect = redirect ? source_resolve(redirect, redirect) : NULL;
	if (curl_easy_header(t->easy, "Last-Modified", 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
		t->f->last_modified = xstrdup(h->value);
}

int fetch_run(struct fetch *f, struct err *err)
{
	struct transfer t = {.f = f, .easy = curl_easy_init()};
	struct curl_slist *headers = accept_header(f->accept);
	char why[CURL_ERROR_SIZE] = "";
	CURLcode code;

	if (!t.easy)
		abort();
	f->held = 0;
	digest_begin(&t.digest, &f->digest);
	set_options(&t, headers, why);
	code = curl_easy_perform(t.easy);
	take_head(&t);
	curl_easy_cleanup(t.easy);
	curl_slist_free_all(headers);
	if (t.failed < 0)
		return err_set_errno(err, t.failed, "it can't be kept");
	if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && t.only_head))
		return err_set(err, ERR_ENGINE, -EIO, "%s",
			why[0] ? why : curl_easy_strerror(code));
	if (f->status == 200 && !digest_end(&t.digest))
		return err_set(err, ERR_ENGINE, -EBADMSG, "it is not what its index says");
	return 0;
}

void fetch_done(struct fetch *f)
{
	free(f->redirect);
	free(f->last_modified);
	f->redirect = f->last_modified = NULL;
}
