/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack ports` and `pandastack port-forward`: what listens in a sandbox, and connections to it. */
/*
 * port-forward has a thread for each connection, which pumps between its socket and a tunnel of its own. The first thread accepts
 * and waits for a signal; at the end it tells the others by `stop_fd`, and waits until they have left.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/parse.h"
#include "cli/client.h"
#include "cli/client_internal.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/opts.h"
#include "cli/pump.h"
#include "cli/sandbox.h"
#include "cli/term.h"
#include "cli/text.h"

enum {
	FORWARDS_MAX = 32,
	CONNECTIONS_MAX = 128, /* at once to one sandbox */
	BACKLOG = 64,
};

/* ---- ports ---- */

int cmd_ports(int argc, char **argv, struct err *err)
{
	static const struct table_column columns[] = {
		{"PORT", "port", table_any},
		{"LABEL", "label", table_any},
		{"LISTENS", "listening", table_any},
		{"PATH", "proxy_url", table_any},
	};
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	bool json = false;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "ports ID [--json]",
		.about = "Lists the ports of a sandbox on which something listens, and those that\n"
			 "have a label. The path leads to the server through the daemon;\n"
			 "`pandastack port-forward` makes a port of this machine of it.\n",
		.examples = "  pandastack ports 3f2a\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/ports", &client, &path, err);
	return r < 0 ? r : list_print(client, path, columns, ARRAY_SIZE(columns), json, err);
}

/* ---- port-forward: a connection ---- */

struct forwarder {
	struct client *client; /* owned */
	char *id;              /* owned */
	const char *name;      /* of the sandbox, as it was given */
	int stop_fd;           /* owned; readable: all is to end */
	pthread_mutex_t lock;  /* protects what is below, and stderr */
	pthread_cond_t left;
	unsigned int n_connections;
};

struct connection {
	struct forwarder *f; /* borrowed */
	int fd;              /* owned */
	uint16_t port;       /* in the sandbox */
};

static int on_text(struct pump *p, const char *text, size_t len, struct err *err)
{
	json_t *message = json_loadb(text, len, 0, NULL);

	p->shuts_down |= json_is_true(json_object_get(message, "eof"));
	json_decref(message);
	return 0;
}

static void on_in_end(struct pump *p)
{
	static const char eof[] = "{\"eof\":true}";

	websocket_send_text(channel_websocket(p->channel), eof, strlen(eof));
}

static int on_stop(struct pump *p, struct err *err)
{
	return err_set(err, ERR_INTERNAL, -ECANCELED, "interrupted");
}

static const struct pump_ops tunnel_ops = {
	.on_text = on_text,
	.on_in_end = on_in_end,
	.on_event = on_stop,
};

static int run_tunnel(const struct connection *c, struct err *err)
{
	_cleanup_pump_ struct pump p = pump_init(&tunnel_ops, c->fd, c->fd, c->f->stop_fd);
	_cleanup_channel_ struct channel *channel = NULL;
	_cleanup_free_ char *suffix = text_format("/ports/%u/tunnel", (unsigned int)c->port);
	_cleanup_free_ char *path = sandbox_path(c->f->id, suffix);
	const struct websocket *ws;
	int r = channel_open(c->f->client, path, &pump_ops, &p, c->f->stop_fd, &channel, err);

	if (r < 0)
		return r;
	p.channel = channel;
	r = pump_run(&p, err);
	ws = channel_websocket(channel);
	if (r == 0 && websocket_peer_code(ws) != WEBSOCKET_NORMAL)
		return err_set(err, ERR_UPSTREAM, -ECONNRESET, "%s", websocket_peer_reason(ws));
	return r;
}

static void *connection_run(void *arg)
{
	static const struct linger reset = {.l_onoff = 1};
	struct connection *c = arg;
	struct forwarder *f = c->f;
	struct err err = {0};
	int r = run_tunnel(c, &err);

	/* Who is connected must not take a part for the whole. */
	if (r < 0)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)close(c->fd);
	pthread_mutex_lock(&f->lock);
	if (r < 0 && r != -ECANCELED && r != -EPIPE)
		term_say("%s:%u: %s", f->name, (unsigned int)c->port, err_msg(&err));
	f->n_connections--;
	pthread_cond_signal(&f->left);
	pthread_mutex_unlock(&f->lock);
	free(c);
	return NULL;
}

static void begin_connection(struct forwarder *f, int fd, uint16_t port)
{
	struct connection *c = xnew(struct connection);
	pthread_t thread;
	bool begun;

	*c = (struct connection){.f = f, .fd = fd, .port = port};
	pthread_mutex_lock(&f->lock);
	begun = f->n_connections < CONNECTIONS_MAX &&
		pthread_create(&thread, NULL, connection_run, c) == 0;
	if (begun)
		f->n_connections++;
	else
		term_say("%s:%u: %u connections are open already", f->name, (unsigned int)port,
			f->n_connections);
	pthread_mutex_unlock(&f->lock);
	if (begun) {
		(void)pthread_detach(thread);
		return;
	}
	(void)close(fd);
	free(c);
}

/* ---- port-forward: the ports ---- */

struct forward {
	int fd; /* owned; listens */
	uint16_t local, remote;
};

/* "8000", "9000:8000", "0:8000". */
static int parse_forward(const char *arg, struct forward *ret, struct err *err)
{
	const char *colon = strchr(arg, ':');
	_cleanup_free_ char *first = colon ? strndup(arg, (size_t)(colon - arg)) : NULL;
	uint64_t local, remote;

	if (parse_u64(colon ? colon + 1 : arg, 1, UINT16_MAX, &remote) < 0 ||
		parse_u64(first ? first : arg, 0, UINT16_MAX, &local) < 0) {
		_cleanup_free_ char *clean = text_clean(arg);

		return err_set(err, ERR_INVALID, -EINVAL,
			"'%s' is no port: give REMOTE or LOCAL:REMOTE, numbers up to 65535", clean);
	}
	*ret = (struct forward){.fd = -1, .local = (uint16_t)local, .remote = (uint16_t)remote};
	return 0;
}

static int listen_on(struct forward *f, struct err *err)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(f->local),
	};
	socklen_t len = sizeof(a);
	int on = 1;

	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->fd < 0 || setsockopt(f->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_set_errno(err, -errno, "can't make a socket");
	if (bind(f->fd, (struct sockaddr *)&a, len) < 0) {
		int r = -errno;

		if (r == -EADDRINUSE)
			return err_set(err, ERR_CONFLICT, r,
				"port %u of this machine is in use; choose another one, as in "
				"%u:%u, or any with 0:%u",
				f->local, f->local % 10000 + 10000, f->remote, f->remote);
		if (r == -EACCES)
			return err_set(err, ERR_INVALID, r,
				"ports below 1024 are for root; choose another one, as in %u:%u",
				f->local + 8000, f->remote);
		return err_set_errno(err, r, "can't listen on port %u", f->local);
	}
	if (listen(f->fd, BACKLOG) < 0 || getsockname(f->fd, (struct sockaddr *)&a, &len) < 0)
		return err_set_errno(err, -errno, "can't listen on port %u", f->local);
	f->local = ntohs(a.sin_port);
	return 0;
}

/* Until a signal comes. */
static int accept_all(struct forwarder *f, const struct forward *forwards, size_t n,
	struct err *err)
{
	struct pollfd fds[FORWARDS_MAX + 1] = {
		{.fd = client_signal_fd(f->client), .events = POLLIN}};

	for (size_t i = 0; i < n; i++)
		fds[1 + i] = (struct pollfd){.fd = forwards[i].fd, .events = POLLIN};
	while (!fds[0].revents) {
		if (poll(fds, 1 + n, -1) < 0 && errno != EINTR)
			return err_set_errno(err, -errno, "can't wait");
		for (size_t i = 0; i < n; i++) {
			int fd = fds[1 + i].revents
				? accept4(forwards[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
				: -1;

			if (fd >= 0)
				begin_connection(f, fd, forwards[i].remote);
		}
	}
	return err_set(err, ERR_INTERNAL, -ECANCELED, "interrupted");
}

static void stop_all(struct forwarder *f)
{
	(void)eventfd_write(f->stop_fd, 1);
	pthread_mutex_lock(&f->lock);
	while (f->n_connections)
		pthread_cond_wait(&f->left, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static int forward_all(struct forwarder *f, struct forward *forwards, size_t n, struct err *err)
{
	int r = client_new(&f->client, err);

	if (r == 0)
		r = sandbox_resolve(f->client, f->name, &f->id, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = listen_on(&forwards[i], err);
	if (r == 0)
		r = client_catch_signals(f->client, err);
	if (r < 0)
		return r;
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (f->stop_fd < 0)
		return err_set_errno(err, -errno, "can't make an event");
	for (size_t i = 0; i < n; i++)
		(void)printf("Forwarding 127.0.0.1:%u -> %s:%u\n", forwards[i].local, f->name,
			forwards[i].remote);
	if (fflush(stdout) != 0)
		return err_set_errno(err, -errno, "cannot write");
	r = accept_all(f, forwards, n, err);
	stop_all(f);
	return r;
}

int cmd_port_forward(int argc, char **argv, struct err *err)
{
	struct forwarder f = {
		.stop_fd = -1,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.left = PTHREAD_COND_INITIALIZER,
	};
	struct forward forwards[FORWARDS_MAX];
	const struct opts_spec spec = {
		.usage = "port-forward ID [LOCAL:]REMOTE...",
		.about =
			"Makes ports of this machine that lead to ports of a sandbox, whatever\n"
			"speaks there: databases, ssh, HTTP. They listen on 127.0.0.1 until\n"
			"Ctrl-C. LOCAL is the same number unless it is given; 0 is any that is\n"
			"free. The server may be started later. A hibernated sandbox is woken by a\n"
			"connection, and no sandbox expires while one is open.\n",
		.examples = "  pandastack port-forward 3f2a 8000\n"
			    "  pandastack port-forward 3f2a 15432:5432 0:8000\n",
		.min_args = 2,
		.max_args = 1 + FORWARDS_MAX,
	};
	size_t n = 0;
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	f.name = argv[0];
	for (r = 0; r == 0 && n < (size_t)argc - 1; n++)
		r = parse_forward(argv[1 + n], &forwards[n], err);
	if (r == 0)
		r = forward_all(&f, forwards, n, err);
	for (size_t i = 0; i < n; i++)
		cleanup_close(&forwards[i].fd);
	cleanup_close(&f.stop_fd);
	free(f.id);
	client_free(f.client);
	return r;
}
