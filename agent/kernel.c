/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel: its process, control socket and output pipes. */
/*
 * Theory of operation
 *
 * A kernel, of whatever language, is forked by the zygote with three descriptors: a control socket (frames, see
 * kernel_frame.h) and pipes as its descriptors 1 and 2, for what does not go through Python:
 * C libraries, children. It is a child of the agent, for its parent exits at once and the agent
 * is PID 1 (or a subreaper). The first frame, 'k', names the PID. The kernel is user code, so the PID
 * is believed only if it is an unwatched child of ours; a wrong one fails the start.
 *
 * Order of output: bytes in the pipes were written before the 'm' or 'd' frame that is read after
 * them, so a frame of these types first lets out what the pipes hold at its arrival (`owed`). A
 * process that floods a pipe cannot hold up the frame for longer than that.
 *
 * Back-pressure: when the stream has no room, nothing is read from control socket and pipes
 * (`blocked`); the kernel blocks in its own write. An 'm' frame may be larger than all buffers; it is
 * passed on in parts as it arrives.
 *
 * Events: one with its bodies is passed on whole to the cell in which it began, or dropped where it began between cells: a
 * thread's may arrive in part before a cell and in part during it. Text is kept for the next cell at any byte.
 *
 * Death: bytes that are in the socket and the pipes at the exit are still delivered, or kept, then on_dead.
 * Nonsense on the control socket kills the kernel.
 */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "base/str.h"
#include "file_io.h"
#include "kernel_frame.h"

enum {
	START_MS = 60 * 1000, /* from the fork request to 'k' */
	ADOPT_MS = 10,        /* until a kernel's parent has exited, see check_pid() */
	ADOPT_TRIES = 200,
	/* Until a kernel of a copy seeds its generators, unless a cell comes first. At once it would take a machine whose
	 * code is not translated yet as long as its start, and the processor from siblings that are starting. */
	RESEED_MS = 1000,
	KEPT_BYTES = 64 * 1024, /* of each pipe, between cells */
	TEXT_BYTES = 64 * 1024,
	/* A cell of LIMIT_CODE_BYTES, each byte escaped at worst, and an environment. */
	TX_BYTES = 6 * (LIMIT_CODE_BYTES + LIMIT_OPEN_BYTES) + 4096,
};

static void update_control(struct kernel *k)
{
	source_set(&k->control, (k->blocked ? 0 : EPOLLIN) | (k->tx.len ? EPOLLOUT : 0));
}

static void block(struct kernel *k)
{
	k->blocked = true;
	stream_want_room(k->stream);
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++)
		source_set(&k->out[i].source, 0);
}

static void pipe_close(struct kernel_pipe *p)
{
	source_detach(&p->source);
	cleanup_close(&p->fd);
	p->fd = -1;
	p->owed = 0;
}

/* --- output -------------------------------------------------------------------------------- */

/* Keeps output for the next cell, or counts what does not fit. */
static void keep(struct kernel_pipe *p, const void *data, size_t len)
{
	struct kernel_kept *kept = &p->kernel->kept[p - p->kernel->out];
	size_t fits = MIN(len, KEPT_BYTES - kept->text.len);

	if (buf_append(&kept->text, data, fits) < 0)
		abort(); /* out of memory */
	kept->dropped += len - fits;
}

/* Takes up to len bytes of output; 0 when the stream has no room. */
static size_t put_output(struct kernel *k, struct kernel_pipe *p, const uint8_t *data, size_t len)
{
	size_t n = len;

	if (!k->running) {
		keep(p, data, len);
	} else if (k->stream) {
		n = MIN(len, stream_room(k->stream));
		if (n)
			stream_send(k->stream, LINK_DATA, p->channel, data, n);
	}
	return n;
}

static size_t put_body(struct kernel *k, const uint8_t *data, size_t len)
{
	size_t n = len;

	if (k->heard && k->stream) {
		n = MIN(len, stream_room(k->stream));
		if (n)
			stream_send(k->stream, LINK_DATA, LINK_CH_BODY, data, n);
	}
	return n;
}

static size_t put_event(struct kernel *k, const uint8_t *data, size_t len)
{
	size_t n = len;

	if (k->heard && k->stream) {
		n = MIN(len, stream_room(k->stream));
		if (n)
			stream_send(k->stream, LINK_EVENT, n < k->left ? LINK_MORE : 0, data, n);
	}
	return n;
}

/* One read of a pipe. False when the stream has no room. */
static bool read_pipe(struct kernel *k, struct kernel_pipe *p)
{
	uint8_t bytes[16 * 1024];
	size_t room = sizeof(bytes);
	ssize_t n;

	if (k->running && k->stream)
		room = MIN(room, stream_room(k->stream));
	if (room == 0)
		return false;
	n = read(p->fd, bytes, room);
	if (n > 0) {
		(void)put_output(k, p, bytes, (size_t)n); /* there is room for all */
		p->owed -= (int)MIN(n, p->owed);
	} else if (n < 0 && errno == EAGAIN) {
		p->owed = 0;
	} else {
		pipe_close(p);
	}
	return true;
}

static void mark_owed(struct kernel *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++) {
		if (k->out[i].fd >= 0 && ioctl(k->out[i].fd, FIONREAD, &k->out[i].owed) < 0)
			k->out[i].owed = 0;
	}
}

static bool pay_owed(struct kernel *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++) {
		while (k->out[i].owed > 0) {
			if (!read_pipe(k, &k->out[i]))
				return false;
		}
	}
	return true;
}

/* --- frames -------------------------------------------------------------------------------- */

/* The last line that it wrote to stderr, or `why` where there is none. */
static const char *last_words(struct kernel *k, const char *why, char *line, size_t size)
{
	const struct buf *kept = &k->kept[1].text;
	size_t len, start;

	mark_owed(k);
	(void)pay_owed(k); /* no cell runs: it is kept */
	for (len = kept->len; len > k->inherited && strchr("\r\n ", kept->data[len - 1]); len--)
		;
	for (start = len; start > k->inherited && kept->data[start - 1] != '\n'; start--)
		;
	return len > start ? str_printable(line, size, kept->data + start, len - start) : why;
}

static void start_failed(struct kernel *k, const char *why)
{
	char line[256];
	struct err err;

	timer_stop(&k->start_timer);
	source_detach(&k->control);
	if (runtime_fork_failed(&k->agent->runtime, &k->waiter))
		err = k->waiter.err;
	else
		(void)err_set(&err, ERR_INTERNAL, -EIO, "the kernel did not start: %s",
			last_words(k, why, line, sizeof(line)));
	k->ops->on_ready(k, &err);
}

static void on_exit_reaped(struct child *child, int status);

/*
 * Adopts the process if it is our child. It is so only after its parent, which the zygote forked
 * in between, has exited; that may be a moment after 'k', and nothing tells us: try again.
 */
static void check_pid(struct kernel *k)
{
	int r = child_watch(&k->child, &k->agent->reaper, k->claimed_pid, on_exit_reaped);

	if (r == -ECHILD && k->start_tries++ < ADOPT_TRIES) {
		timer_start(&k->start_timer, &k->agent->loop, ADOPT_MS);
		return;
	}
	timer_stop(&k->start_timer);
	if (r == 0)
		r = cgroup_attach(k->cgroup, kernel_pid(k));
	if (r < 0) {
		start_failed(k, "its process is not ours");
		return;
	}
	runtime_waiter_cancel(&k->waiter); /* the fork has succeeded */
	k->ops->on_ready(k, NULL);
}

static void on_start_timer(struct timer *timer)
{
	struct kernel *k = container_of(timer, struct kernel, start_timer);

	if (k->claimed_pid)
		check_pid(k);
	else
		start_failed(k, "no sign of life");
}

/* A short frame is complete. False when the kernel may be gone now. */
static bool handle_text(struct kernel *k)
{
	json_t *json = json_loadb(k->text.data ? k->text.data : "", k->text.len, 0, NULL);
	bool go_on = true;

	buf_clear(&k->text);
	if (k->type == KERNEL_HELLO && !k->claimed_pid) {
		k->claimed_pid = (pid_t)json_integer_value(json_object_get(json, "pid"));
		check_pid(k);
		go_on = false;
	} else if (k->type == KERNEL_DONE && k->running) {
		k->running = false;
		k->asking = false;
		k->stream = NULL;
		k->ops->on_done(k, json);
	}
	json_decref(json);
	return go_on;
}

/* Takes up to len bytes of the frame at hand; 0 when the stream has no room. */
static size_t put_payload(struct kernel *k, const uint8_t *data, size_t len)
{
	switch (k->type) {
	case KERNEL_STDOUT:
		return put_output(k, &k->out[0], data, len);
	case KERNEL_STDERR:
		return put_output(k, &k->out[1], data, len);
	case KERNEL_BODY:
		return put_body(k, data, len);
	case KERNEL_EVENT:
	case KERNEL_ASK:
		return put_event(k, data, len);
	default: /* is_text() */
		if (buf_append(&k->text, data, len) < 0)
			abort(); /* out of memory: begin_frame() checked the length */
		return len;
	}
}

/* Short frames that are for us. */
static bool is_text(uint8_t type)
{
	return type == KERNEL_HELLO || type == KERNEL_DONE || type == KERNEL_RESEEDED;
}

static bool begin_frame(struct kernel *k, const uint8_t *header)
{
	struct kernel_frame f = kernel_frame_header(header);
	bool text = is_text(f.type);
	bool event = f.type == KERNEL_EVENT || f.type == KERNEL_ASK;
	bool bytes = f.type == KERNEL_STDOUT || f.type == KERNEL_STDERR || f.type == KERNEL_BODY;

	if ((!text && !event && !bytes) || f.length > (text ? TEXT_BYTES : LIMIT_EVENT_BYTES))
		return false;
	if (k->type != KERNEL_BODY) /* else it belongs to what came before */
		k->heard = k->running;
	k->type = f.type;
	k->left = f.length;
	k->in_frame = true;
	if (event || f.type == KERNEL_DONE)
		mark_owed(k);
	if (f.type == KERNEL_ASK)
		k->asking = k->heard;
	return true;
}

/*
 * What came is no frame: the end of this kernel, and of what it has to say, though it may go on talking until it
 * is dead. The result is that of pump().
 */
static bool nonsense(struct kernel *k)
{
	k->nonsense = true;
	k->rx_len = 0;
	if (kernel_pid(k) || k->exited) {
		kernel_kill(k);
		return true;
	}
	start_failed(k, "it talks nonsense");
	return false;
}

/* Works on what is in `rx`. False when the kernel may be gone now. */
static bool pump(struct kernel *k)
{
	size_t pos = 0, n;

	if (k->nonsense)
		k->rx_len = 0;
	for (;;) {
		if (!k->in_frame) {
			if (k->rx_len - pos < KERNEL_HEADER_BYTES)
				break;
			if (!begin_frame(k, k->rx + pos))
				return nonsense(k);
			pos += KERNEL_HEADER_BYTES;
		}
		if (!pay_owed(k)) {
			block(k);
			break;
		}
		if (k->left) {
			if (pos == k->rx_len)
				break;
			n = put_payload(k, k->rx + pos, MIN(k->left, k->rx_len - pos));
			if (n == 0) {
				block(k);
				break;
			}
			pos += n;
			k->left -= (uint32_t)n;
			continue;
		}
		k->in_frame = false;
		if (!is_text(k->type))
			continue;
		k->rx_len -= pos;
		memmove(k->rx, k->rx + pos, k->rx_len);
		pos = 0;
		if (!handle_text(k))
			return false;
	}
	k->rx_len -= pos;
	if (pos)
		memmove(k->rx, k->rx + pos, k->rx_len);
	return true;
}

/* --- the process's end --------------------------------------------------------------------- */

/* One read of the control socket; false at its end. */
static bool fill(struct kernel *k)
{
	ssize_t n = read(k->control_fd, k->rx + k->rx_len, sizeof(k->rx) - k->rx_len);

	if (n > 0) {
		k->rx_len += (size_t)n;
		k->control_owed -= (int)MIN(n, k->control_owed);
		return true;
	}
	k->control_owed = 0;
	return n < 0 && errno == EAGAIN;
}

/* The killer strikes children too, which the kernel may survive: what counts is SIGKILL in the cell in which it struck. */
static bool ran_out_of_memory(const struct kernel *k)
{
	return WIFSIGNALED(k->status) && WTERMSIG(k->status) == SIGKILL &&
		cgroup_oom_kills(k->cgroup) > k->oom_kills;
}

/* The process is gone: delivers what it left, as far as there is room, then says so. */
static void settle(struct kernel *k)
{
	while (k->control_owed > 0 && !k->blocked) {
		(void)fill(k); /* at its end control_owed is 0 */
		if (!pump(k))
			return;
	}
	if (k->blocked)
		return;
	if (!pay_owed(k)) {
		block(k);
		return;
	}
	k->ops->on_dead(k, k->status, ran_out_of_memory(k));
}

static void on_exit_reaped(struct child *child, int status)
{
	struct kernel *k = container_of(child, struct kernel, child);

	k->exited = true;
	k->status = status;
	kernel_kill(k); /* its children */
	source_detach(&k->control);
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++)
		source_detach(&k->out[i].source);
	if (ioctl(k->control_fd, FIONREAD, &k->control_owed) < 0)
		k->control_owed = 0;
	mark_owed(k);
	settle(k);
}

/* --- descriptors --------------------------------------------------------------------------- */

static void flush_tx(struct kernel *k)
{
	ssize_t n = send(k->control_fd, k->tx.data, k->tx.len, MSG_NOSIGNAL);

	if (n > 0)
		buf_consume(&k->tx, (size_t)n);
	else if (n < 0 && errno != EAGAIN)
		buf_clear(&k->tx); /* nobody reads: the end of the socket follows */
}

static void on_control(struct source *src, uint32_t revents)
{
	struct kernel *k = container_of(src, struct kernel, control);

	if (revents & EPOLLOUT)
		flush_tx(k);
	if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR) && !fill(k)) {
		source_detach(&k->control);
		if (!k->claimed_pid)
			start_failed(k, "it ended");
		else
			kernel_kill(k); /* of no use without a control socket */
		return;
	}
	if (pump(k))
		update_control(k);
}

static void on_pipe(struct source *src, uint32_t revents)
{
	struct kernel_pipe *p = container_of(src, struct kernel_pipe, source);

	(void)revents;
	if (!read_pipe(p->kernel, p)) {
		block(p->kernel);
		update_control(p->kernel);
	}
}

void kernel_on_room(struct kernel *k)
{
	k->blocked = false;
	if (k->exited) {
		if (pump(k))
			settle(k);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++)
		source_set(&k->out[i].source, EPOLLIN);
	if (pump(k))
		update_control(k);
}

/* --- the beginning ------------------------------------------------------------------------- */

static int open_channels(struct kernel *k, int theirs[3])
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	k->control_fd = fds[0];
	theirs[0] = fds[1];
	(void)fcntl(k->control_fd, F_SETFL, O_NONBLOCK); /* cannot fail on a socket */
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return -errno;
		k->out[i].fd = fds[0];
		theirs[i + 1] = fds[1];
		(void)fcntl(fds[0], F_SETFL, O_NONBLOCK); /* cannot fail on a pipe */
	}
	return 0;
}

static int watch_channels(struct kernel *k)
{
	struct loop *loop = &k->agent->loop;
	int r = source_attach(&k->control, loop, k->control_fd, EPOLLIN, on_control);

	for (size_t i = 0; i < ARRAY_SIZE(k->out) && r == 0; i++)
		r = source_attach(&k->out[i].source, loop, k->out[i].fd, EPOLLIN, on_pipe);
	return r;
}

static int request_fork(struct kernel *k, const int theirs[3], struct err *err)
{
	const char *tree = k->agent->config.cgroup;
	struct runtime_spec spec = {.language = k->language, .cwd = k->cwd, .env = k->env};
	char path[256];

	/* It enters its group before it starts anything of its own. */
	if (tree && k->cgroup->dir_fd >= 0) {
		(void)snprintf(path, sizeof(path), "%s/%s", tree, k->cgroup->name);
		spec.cgroup = path;
	}
	return runtime_fork(&k->agent->runtime, &k->waiter, &spec, theirs, err);
}

static void append_reseed(struct kernel *k)
{
	json_t *nothing = json_object();

	(void)kernel_frame_append_json(&k->tx, KERNEL_RESEED,
		nothing); /* there is room beside a cell */
	json_decref(nothing);
}

static void on_reseed_timer(struct timer *timer)
{
	struct kernel *k = container_of(timer, struct kernel, reseed_timer);

	append_reseed(k);
	if (k->control.loop) {
		flush_tx(k);
		update_control(k);
	}
}

static void on_runtime_ready(struct runtime_waiter *w, const struct err *runtime_err)
{
	struct kernel *k = container_of(w, struct kernel, waiter);
	int theirs[3] = {-1, -1, -1};
	struct err err;
	int r;

	if (runtime_err) {
		k->ops->on_ready(k, runtime_err);
		return;
	}
	r = open_channels(k, theirs);
	if (r == 0)
		r = watch_channels(k);
	if (r < 0)
		(void)err_set_errno(&err, r, "starting a kernel");
	else
		r = request_fork(k, theirs, &err);
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		cleanup_close(&theirs[i]);
	if (r < 0)
		k->ops->on_ready(k, &err);
	else
		timer_start(&k->start_timer, &k->agent->loop, START_MS);
}

void kernel_kept_init(struct kernel_kept kept[KERNEL_PIPES])
{
	for (size_t i = 0; i < KERNEL_PIPES; i++)
		kept[i] = (struct kernel_kept){.text = buf_init(KEPT_BYTES)};
}

void kernel_kept_clear(struct kernel_kept kept[KERNEL_PIPES])
{
	for (size_t i = 0; i < KERNEL_PIPES; i++) {
		buf_clear(&kept[i].text);
		kept[i].dropped = 0;
	}
}

void kernel_kept_done(struct kernel_kept kept[KERNEL_PIPES])
{
	for (size_t i = 0; i < KERNEL_PIPES; i++)
		buf_done(&kept[i].text);
}

struct kernel *kernel_new(struct agent *agent, const char *language, const char *cwd, json_t *env,
	struct kernel_kept kept[KERNEL_PIPES], const struct kernel_ops *ops, void *owner)
{
	struct kernel *k = xnew(struct kernel);

	k->agent = agent;
	k->ops = ops;
	k->owner = owner;
	k->language = xstrdup(language);
	k->cwd = xstrdup(cwd);
	k->env = env;
	k->kept = kept;
	k->inherited = kept[1].text.len;
	k->cgroup = cgroup_new(&agent->cgroups, "kernel");
	k->control_fd = -1;
	k->tx = buf_init(TX_BYTES);
	k->text = buf_init(TEXT_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++) {
		k->out[i].kernel = k;
		k->out[i].fd = -1;
		k->out[i].channel = i == 0 ? LINK_CH_STDOUT : LINK_CH_STDERR;
	}
	timer_init(&k->start_timer, on_start_timer);
	timer_init(&k->reseed_timer, on_reseed_timer);
	k->waiter.on_ready = on_runtime_ready;
	list_init(&k->waiter.node);
	return k;
}

void kernel_start(struct kernel *k)
{
	runtime_want(&k->agent->runtime, &k->waiter);
}

struct kernel *kernel_free(struct kernel *k)
{
	if (!k)
		return NULL;
	if (!k->exited)
		kernel_kill(k);
	runtime_waiter_cancel(&k->waiter);
	timer_stop(&k->start_timer);
	timer_stop(&k->reseed_timer);
	child_forget(&k->child);
	source_detach(&k->control);
	cleanup_close(&k->control_fd);
	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++)
		pipe_close(&k->out[i]);
	k->cgroup = cgroup_release(k->cgroup);
	buf_done(&k->tx);
	buf_done(&k->text);
	json_decref(k->env);
	free(k->language);
	free(k->cwd);
	free(k);
	return NULL;
}

/* What was kept since the last cell; the window of a new stream has room for all of it. */
static void send_kept(const struct kernel *k)
{
	char note[96];

	for (size_t i = 0; i < ARRAY_SIZE(k->out); i++) {
		const struct kernel_kept *kept = &k->kept[i];

		if (kept->text.len)
			stream_send(k->stream, LINK_DATA, k->out[i].channel, kept->text.data,
				kept->text.len);
		if (!kept->dropped)
			continue;
		(void)snprintf(note, sizeof(note),
			"[pandastack: %llu bytes of output between cells were dropped]\n",
			(unsigned long long)kept->dropped);
		stream_send(k->stream, LINK_DATA, LINK_CH_STDERR, note, strlen(note));
	}
}

int kernel_run(struct kernel *k, struct stream *s, const json_t *request)
{
	int r;

	if (timer_running(&k->reseed_timer)) {
		timer_stop(&k->reseed_timer);
		append_reseed(k);
	}
	r = kernel_frame_append_json(&k->tx, KERNEL_RUN, request);
	if (r < 0)
		return r;
	k->stream = s;
	k->running = true;
	k->started_ticks = cgroup_now_ticks();
	k->oom_kills = cgroup_oom_kills(k->cgroup);
	if (s)
		send_kept(k);
	kernel_kept_clear(k->kept);
	flush_tx(k);
	update_control(k);
	return 0;
}

int kernel_input(struct kernel *k, const char *value)
{
	json_t *answer;
	int r;

	if (!k->asking)
		return -EBUSY;
	answer = json_pack("{ss}", "value", value);
	r = kernel_frame_append_json(&k->tx, KERNEL_INPUT, answer);
	json_decref(answer);
	if (r < 0)
		return r;
	k->asking = false;
	flush_tx(k);
	update_control(k);
	return 0;
}

void kernel_reseed(struct kernel *k)
{
	timer_start(&k->reseed_timer, &k->agent->loop, RESEED_MS);
}

void kernel_mute(struct kernel *k)
{
	k->stream = NULL;
	if (k->blocked)
		kernel_on_room(k);
}

void kernel_interrupt(struct kernel *k)
{
	if (!kernel_pid(k))
		return;
	(void)kill(kernel_pid(k), SIGINT); /* it is ours and not reaped */
}

void kernel_sweep(struct kernel *k)
{
	if (kernel_pid(k))
		cgroup_kill_others(k->cgroup, kernel_pid(k), k->started_ticks);
}

void kernel_kill(struct kernel *k)
{
	cgroup_kill(k->cgroup);
}
