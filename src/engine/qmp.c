/* SPDX-License-Identifier: Apache-2.0 */
/* A client of QEMU's machine protocol (docs/interop/qmp-spec in QEMU's source). */
#include "engine/qmp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/unix_socket.h"

enum {
	LINE_BYTES_MAX = 64 << 10,
	GREETING_TIMEOUT_MS = 20000, /* QEMU answers when its start is over */
};

int qmp_parse_line(const char *data, size_t len, json_t **ret, size_t *ret_used)
{
	const char *end = len ? memchr(data, '\n', len) : NULL;
	json_t *json;

	if (!end)
		return len > LINE_BYTES_MAX ? -EPROTO : 0;
	json = json_loadb(data, (size_t)(end - data), 0, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		return -EPROTO;
	}
	*ret = json;
	*ret_used = (size_t)(end - data) + 1;
	return 1;
}

/* The next object that QEMU sends, events included. */
static int next_object(struct qmp *qmp, int64_t deadline_ms, json_t **ret)
{
	for (;;) {
		struct pollfd p = {.fd = qmp->fd, .events = POLLIN};
		int64_t left = deadline_ms - clock_mono_ms();
		size_t used;
		ssize_t n;
		int r = qmp_parse_line(qmp->in.data, qmp->in.len, ret, &used);

		if (r > 0)
			buf_consume(&qmp->in, used);
		if (r != 0)
			return r < 0 ? r : 0;
		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) < 0 && errno != EINTR)
			return -errno;
		r = buf_reserve(&qmp->in, 4096);
		if (r < 0)
			return r;
		n = recv(qmp->fd, qmp->in.data + qmp->in.len, 4096, MSG_DONTWAIT);
		if (n == 0)
			return -EPIPE;
		/* It died with a command of ours unread. ECONNRESET would say that an HTTP client is gone. */
		if (n < 0 && errno == ECONNRESET)
			return -EPIPE;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0)
			qmp->in.len += (size_t)n;
	}
}

static int send_command(struct qmp *qmp, const char *command, json_t *args)
{
	json_t *msg = json_pack("{s:s}", "execute", command);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (args)
		(void)json_object_set_new(msg, "arguments", args);
	text = json_dumps(msg, JSON_COMPACT);
	json_decref(msg);
	if (!text)
		return -ENOMEM;
	/* Commands are far smaller than a socket's buffer. */
	if (send(qmp->fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
		r = -EPIPE;
	return r;
}

int qmp_execute(struct qmp *qmp, const char *command, json_t *args, int timeout_ms, json_t **ret,
	struct err *err)
{
	int64_t deadline = clock_mono_ms() + timeout_ms;
	int r = send_command(qmp, command, args);

	while (r == 0) {
		json_t *msg = NULL, *value, *error;
		char text[200];

		r = next_object(qmp, deadline, &msg);
		if (r < 0)
			break;
		value = json_object_get(msg, "return");
		error = json_object_get(msg, "error");
		if (error) {
			const char *desc = json_string_value(json_object_get(error, "desc"));

			desc = desc ? desc : "no reason given";
			r = err_set(err, ERR_ENGINE, -EREMOTEIO, "QEMU refused %s: %s", command,
				str_printable(text, sizeof(text), desc, strlen(desc)));
			json_decref(msg);
			return r;
		}
		if (value && ret)
			*ret = json_incref(value);
		json_decref(msg);
		if (value)
			return 0;
	}
	return err_set(err, ERR_ENGINE, r, "QEMU did not answer %s: %s", command, strerror(-r));
}

int qmp_open(struct qmp *qmp, int dir_fd, const char *name, struct err *err)
{
	json_t *greeting = NULL;
	int r;

	*qmp = (struct qmp){.fd = -1, .in = buf_init(2 * LINE_BYTES_MAX)};
	r = unix_connect(dir_fd, name, SOCK_STREAM);
	if (r >= 0) {
		qmp->fd = r;
		r = next_object(qmp, clock_mono_ms() + GREETING_TIMEOUT_MS, &greeting);
		json_decref(greeting);
	}
	if (r < 0)
		err_set(err, ERR_ENGINE, r, "can't reach QEMU's control socket: %s", strerror(-r));
	else
		r = qmp_execute(qmp, "qmp_capabilities", NULL, GREETING_TIMEOUT_MS, NULL, err);
	if (r < 0)
		qmp_close(qmp);
	return r;
}

void qmp_close(struct qmp *qmp)
{
	cleanup_close(&qmp->fd);
	qmp->fd = -1;
	buf_done(&qmp->in);
}
