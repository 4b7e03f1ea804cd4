/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon tells a helper, and is told. */
#include "egress/control.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "proto/egress_config.h"

enum {
	DENIED_BURST = 20, /* told one by one */
	DENIED_PER_SECOND = 5,
};

struct control {
	int listen_fd; /* owned */
	int fd;        /* owned; -1: no daemon */
	int spare_fd; /* owned; the descriptor of the next daemon, however many the guest has taken */
	int listen_index, index;
	struct egress_config *config; /* owned */
	char *text;                   /* owned; EGRESS_CONFIG_MAX and a NUL */
	/* Of events: */
	int64_t tokens;
	int64_t refilled_ms;
	uint64_t untold;
};

static void keep_spare(struct control *c)
{
	if (c->spare_fd < 0)
		c->spare_fd = fcntl(c->listen_fd, F_DUPFD_CLOEXEC, 0);
}

struct control *control_new(int listen_fd, int fd)
{
	struct control *c = xnew(struct control);

	c->listen_fd = listen_fd;
	c->fd = fd;
	c->spare_fd = -1;
	keep_spare(c);
	c->text = xcalloc(1, EGRESS_CONFIG_MAX + 1);
	c->tokens = DENIED_BURST;
	c->refilled_ms = clock_mono_ms();
	return c;
}

static void free_config(struct egress_config *config)
{
	if (config)
		egress_config_done(config);
	free(config);
}

struct control *control_free(struct control *c)
{
	if (!c)
		return NULL;
	cleanup_close(&c->listen_fd);
	cleanup_close(&c->fd);
	cleanup_close(&c->spare_fd);
	free_config(c->config);
	free(c->text);
	free(c);
	return NULL;
}

static void drop_daemon(struct control *c)
{
	cleanup_close(&c->fd);
	c->fd = -1;
	/* The port of a daemon that has gone is anybody's. */
	c->config->mirror_port = 0;
	host_calls_end_mirror();
	keep_spare(c);
}

static void take_daemon(struct control *c)
{
	int fd;

	cleanup_close(&c->spare_fd);
	c->spare_fd = -1;
	fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		drop_daemon(c);
		c->fd = fd;
	}
	keep_spare(c);
}

/* The reference is taken. Whether it was sent. */
static bool tell(struct control *c, json_t *json)
{
	_cleanup_free_ char *text = json_dumps(json, JSON_COMPACT);
	ssize_t n = -1;

	if (c->fd >= 0 && text)
		n = send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	json_decref(json);
	return n >= 0;
}

void control_failed(struct control *c, const char *why)
{
	(void)tell(c,
		json_pack("{s:s}", "error", why)); /* a daemon that has gone asks for nothing */
}

static bool may_tell(struct control *c)
{
	int64_t now_ms = clock_mono_ms();
	int64_t earned = (now_ms - c->refilled_ms) * DENIED_PER_SECOND / 1000;

	if (earned > 0) {
		c->tokens = MIN(c->tokens + earned, (int64_t)DENIED_BURST);
		c->refilled_ms = now_ms;
	}
	if (c->tokens == 0)
		return false;
	c->tokens--;
	return true;
}

void control_denied(const struct egress_target *target, const char *name, const char *why,
	void *user)
{
	struct control *c = user;
	char addr[EGRESS_ADDR_TEXT];
	json_t *denied;

	if (c->fd < 0 || !may_tell(c)) {
		c->untold++;
		return;
	}
	egress_addr_text(&target->addr, addr);
	denied = json_pack("{s:s, s:s, s:i, s:s*, s:s}", "protocol",
		egress_protocol_name(target->protocol), "address", addr, "port", target->port,
		"name", name, "why", why);
	if (tell(c, json_pack("{s:o, s:I}", "denied", denied, "more", (json_int_t)c->untold)))
		c->untold = 0;
}

static void tell_stats(struct control *c, const struct stack *stack)
{
	const struct host_calls_stats *calls = host_calls_stats();
	const struct stack_stats *frames = stack_stats(stack);

	(void)tell(c,
		json_pack("{s:{s:I, s:I, s:I, s:I, s:I}}", "stats", "bytes_out",
			(json_int_t)frames->bytes_out, "bytes_in", (json_int_t)frames->bytes_in,
			"connections", (json_int_t)calls->connections, "denied",
			(json_int_t)calls->denied, "dropped", (json_int_t)frames->dropped));
}

static int set_config(struct control *c, const char *text, struct err *err)
{
	struct egress_config *config = xnew(struct egress_config), *old = c->config;
	int r = egress_config_parse(text, config, err);

	if (r < 0) {
		free_config(config);
		return r;
	}
	c->config = config;
	host_calls_set_config(config);
	free_config(old);
	return 0;
}

/* The next packet into `text`. Its length, 0 when there is none now, -EPIPE when the daemon has gone. */
static ssize_t receive(struct control *c, int flags)
{
	ssize_t n = recv(c->fd, c->text, EGRESS_CONFIG_MAX, flags | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -EPIPE;
	/* Half a policy is another policy: what does not fit is none. */
	c->text[n <= EGRESS_CONFIG_MAX ? n : 0] = '\0';
	return n;
}

static int take_config(struct control *c, struct err *err)
{
	static const char word[] = "config\n";

	if (strncmp(c->text, word, strlen(word)) != 0)
		return err_set(err, ERR_INVALID, -EINVAL, "a config was expected");
	return set_config(c, c->text + strlen(word), err);
}

int control_wait_config(struct control *c, struct err *err)
{
	ssize_t n;

	do
		n = receive(c, 0);
	while (n == 0);
	return n < 0 ? err_set_errno(err, (int)n, "the daemon has gone") : take_config(c, err);
}

void control_fill(struct control *c, struct pollset *set)
{
	c->listen_index = pollset_add(set, c->listen_fd, POLLIN);
	c->index = c->fd < 0 ? -1 : pollset_add(set, c->fd, POLLIN);
}

uint64_t control_rate(const struct control *c)
{
	return c->config->rate;
}

int control_work(struct control *c, const struct pollset *set, struct stack *stack)
{
	struct err err;
	ssize_t n;

	if (c->listen_index >= 0 && set->fds[c->listen_index].revents) {
		take_daemon(c);
		return 0;
	}
	if (c->index < 0 || !set->fds[c->index].revents)
		return 0;
	n = receive(c, MSG_DONTWAIT);
	if (n < 0) {
		drop_daemon(c);
	} else if (n > 0 && strcmp(c->text, "end") == 0) {
		return -EPIPE;
	} else if (n > 0 && strcmp(c->text, "stats") == 0) {
		tell_stats(c, stack);
	} else if (n > 0) {
		if (take_config(c, &err) == 0) {
			stack_set_rate(stack, c->config->rate);
			(void)tell(c, json_pack("{s:b}", "ok", 1));
		} else {
			control_failed(c, err_msg(&err));
		}
	}
	return 0;
}
