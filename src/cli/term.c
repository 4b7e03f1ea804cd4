/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal: whether there is one, colours, and progress on stderr. */
#include "cli/term.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/text.h"

enum {
	PROGRESS_AFTER_MS = 2000,
	PROGRESS_EVERY_MS = 200,
};

bool term_has_colour(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

struct progress progress_init(const char *label)
{
	return (struct progress){.label = label, .started_ms = clock_mono_ms()};
}

void progress_update(struct progress *p, uint64_t done, uint64_t total)
{
	int64_t now_ms = clock_mono_ms(), spent_ms = now_ms - p->started_ms;

	if (spent_ms < PROGRESS_AFTER_MS || now_ms - p->shown_ms < PROGRESS_EVERY_MS ||
		(p->shown_ms && !done) || !isatty(STDERR_FILENO))
		return;
	p->shown_ms = now_ms;
	(void)fprintf(stderr, "\r\033[K%s", p->label); /* a lost progress line is no failure */
	if (done) {
		_cleanup_free_ char *so_far = text_bytes(done);
		_cleanup_free_ char *rate = text_bytes(done * 1000 / (uint64_t)spent_ms);
		_cleanup_free_ char *all = text_bytes(total);

		(void)fprintf(stderr, " %s%s%s, %s/s", so_far, total ? " of " : "",
			total ? all : "", rate);
	}
	(void)fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown_ms)
		(void)fputs("\r\033[K", stderr);
	p->shown_ms = 0;
}

void term_say(const char *fmt, ...)
{
	bool colour = term_has_colour(STDERR_FILENO);
	va_list ap;

	(void)fputs(colour ? "\033[1;31mpandastack:\033[0m " : "pandastack: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap); /* nowhere left to complain */
	va_end(ap);
	(void)fputc('\n', stderr);
}

int term_write(int fd, const char *data, size_t len, struct err *err)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, -errno, "cannot write");
		data += n;
		len -= (size_t)n;
	}
	return 0;
}
