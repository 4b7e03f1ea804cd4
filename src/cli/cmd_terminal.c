/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox ssh`, and `sandbox exec --tty`: a terminal in a sandbox, on this one. */
/*
 * From the connection on this terminal is raw: every key goes to the sandbox, Ctrl-C too. Signals that would end us, and those that tell
 * of a new size, come through a descriptor, so that there is one way out, on which the terminal becomes what it was.
 */
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "base/list.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/pump.h"
#include "cli/sandbox.h"
#include "cli/text.h"

enum {
	DEFAULT_ROWS = 24,
	DEFAULT_COLS = 80,
	SIZE_MAX_CELLS = 1000, /* that the daemon takes */
};

struct terminal {
	struct pump pump;
	struct client *client;   /* owned */
	struct channel *channel; /* owned */
	int signal_fd;           /* owned */
	bool raw;
	struct termios before;
	bool ended; /* the command, with this status */
	int status;
};

/* ---- this terminal ---- */

static struct winsize get_size(void)
{
	struct winsize size = {0};

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size); /* it may not know */
	return (struct winsize){
		.ws_row = size.ws_row ? MIN(size.ws_row, SIZE_MAX_CELLS) : DEFAULT_ROWS,
		.ws_col = size.ws_col ? MIN(size.ws_col, SIZE_MAX_CELLS) : DEFAULT_COLS,
	};
}

static int make_raw(struct terminal *t, struct err *err)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &t->before) < 0)
		return err_set_errno(err, -errno, "can't read the terminal's settings");
	raw = t->before;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return err_set_errno(err, -errno, "can't change the terminal's settings");
	t->raw = true;
	return 0;
}

static void restore(const struct terminal *t)
{
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before); /* it may be gone */
}

static int catch_signals(struct terminal *t, struct err *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
	sigset_t set;

	(void)sigemptyset(&set); /* these two cannot fail with valid signals */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		(void)sigaddset(&set, signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set_errno(err, -errno, "cannot block signals");
	t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (t->signal_fd < 0)
		return err_set_errno(err, -errno, "cannot wait for signals");
	return 0;
}

/* ---- what happens ---- */

static int on_signal(struct pump *p, struct err *err)
{
	struct terminal *t = container_of(p, struct terminal, pump);
	_cleanup_free_ char *text = NULL;
	struct signalfd_siginfo info;
	struct winsize size;

	if (read(t->signal_fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo != SIGWINCH)
		return err_set(err, ERR_INTERNAL, -ECANCELED, "interrupted");
	size = get_size();
	text = text_format("{\"resize\":{\"rows\":%u,\"cols\":%u}}", size.ws_row, size.ws_col);
	websocket_send_text(channel_websocket(p->channel), text, strlen(text));
	return 0;
}

static int on_text(struct pump *p, const char *text, size_t len, struct err *err)
{
	struct terminal *t = container_of(p, struct terminal, pump);
	json_t *message = json_loadb(text, len, 0, NULL);
	json_t *code = json_object_get(message, "exit"), *facts;

	if (json_is_integer(code)) {
		facts = json_pack("{s:O, s:O*}", "exit_code", code, "signal",
			json_object_get(message, "signal"));
		t->ended = true;
		t->status = output_status(facts);
		json_decref(facts);
	}
	json_decref(message);
	return 0;
}

/* This terminal is gone, and so is the one in the sandbox when we close. */
static void on_in_end(struct pump *p)
{
	websocket_close(channel_websocket(p->channel), WEBSOCKET_GOING_AWAY, "");
}

/* ---- the command ---- */

static char *make_path(const char *id, const char *cmd, const char *cwd)
{
	const struct winsize size = get_size();
	_cleanup_free_ char *escaped = cmd ? client_escape(cmd) : NULL;
	_cleanup_free_ char *folder = cwd ? client_escape(cwd) : NULL;
	_cleanup_free_ char *suffix = text_format("/exec/pty?rows=%u&cols=%u%s%s%s%s", size.ws_row,
		size.ws_col, escaped ? "&cmd=" : "", escaped ? escaped : "", folder ? "&cwd=" : "",
		folder ? folder : "");

	return sandbox_path(id, suffix);
}

static int run(struct terminal *t, const char *sandbox, const char *cmd, const char *cwd,
	struct err *err)
{
	_cleanup_free_ char *id = NULL, *path = NULL;
	const struct websocket *ws;
	int r = client_new(&t->client, err);

	if (r == 0)
		r = sandbox_resolve(t->client, sandbox, &id, err);
	if (r < 0)
		return r;
	path = make_path(id, cmd, cwd);
	r = channel_open(t->client, path, &pump_ops, &t->pump, -1, &t->channel, err);
	if (r == 0)
		r = catch_signals(t, err);
	if (r == 0)
		r = make_raw(t, err);
	if (r < 0)
		return r;
	t->pump.channel = t->channel;
	t->pump.event_fd = t->signal_fd;
	r = pump_run(&t->pump, err);
	ws = channel_websocket(t->channel);
	if (r < 0)
		return r;
	if (!t->ended)
		return err_set(err, ERR_INTERNAL, -ECONNRESET, "the terminal was closed: %s",
			*websocket_peer_reason(ws) ? websocket_peer_reason(ws) : "no reason given");
	return t->status;
}

int terminal_run(const char *sandbox, const char *cmd, const char *cwd, struct err *err)
{
	static const struct pump_ops ops = {
		.on_text = on_text,
		.on_in_end = on_in_end,
		.on_event = on_signal,
	};
	struct terminal t = {
		.pump = pump_init(&ops, STDIN_FILENO, STDOUT_FILENO, -1),
		.signal_fd = -1,
	};
	int r;

	if (!isatty(STDIN_FILENO))
		return err_set(err, ERR_INVALID, -ENOTTY,
			"stdin is no terminal; for a command without one use: pandastack sandbox "
			"exec ID -- COMMAND");
	r = run(&t, sandbox, cmd, cwd, err);
	restore(&t);
	channel_free(t.channel);
	pump_done(&t.pump);
	cleanup_close(&t.signal_fd);
	client_free(t.client);
	return r;
}

int cmd_sandbox_ssh(int argc, char **argv, struct err *err)
{
	const struct opts_spec spec = {
		.usage = "sandbox ssh ID",
		.about =
			"Opens a shell in a sandbox on this terminal. There is no ssh in it, and\n"
			"no network: the daemon passes on what is typed and shown. The exit status\n"
			"is that of the shell; when this program ends, so does the shell.\n",
		.examples = "  pandastack sandbox ssh 3f2a\n",
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	return r <= 0 ? r : terminal_run(argv[0], NULL, NULL, err);
}
