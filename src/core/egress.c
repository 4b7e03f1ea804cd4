/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of the egress helpers.
 *
 * Theory of operation
 * -------------------
 * A helper is started by the first frame of its guest that is for somebody, which waits in the socket of the network card meanwhile: most
 * clones never send one, and their restores do not pay for it. Its sockets are made before it exists, and the policy is sent by then: so a
 * start waits for nothing.
 *
 * Packets from the helper are read by the hub's thread: denials go to the callback, anything else is the answer to the one request that
 * may be under way (`request` is held meanwhile). The helper deals with what the guest sends, so what it says is input: packets are
 * bounded, and its texts are cut.
 */
#include "core/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/str.h"
#include "engine/unix_socket.h"
#include "proto/egress_config.h"
#include "version.h"

enum {
	ANSWER_TIMEOUT_MS = 5000,
	END_TIMEOUT_MS = 2000,
	PACKET_MAX = 4096,
	DENIALS_A_SECOND = 50, /* an honest helper tells fewer */
	RATE_MIN = 1024,
	CHATTER_MAX = 64,
};

static const char socket_name[] = "egress.sock";

/* ---- policies ---- */

static int check_rules(const json_t *list, const char *what, bool allow, struct err *err)
{
	const json_t *text;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > EGRESS_RULES_MAX)
		return err_set(err, ERR_INVALID, -EINVAL,
			"`network.egress.%s` must be a list of at most %d rules", what,
			EGRESS_RULES_MAX);
	json_array_foreach((json_t *)(uintptr_t)list, i, text) {
		struct egress_rule rule;
		int r;

		if (!json_is_string(text))
			return err_set(err, ERR_INVALID, -EINVAL,
				"`network.egress.%s` must hold texts, such as \"example.com\"",
				what);
		r = egress_rule_parse(json_string_value(text), &rule, err);
		if (r == 0 && allow)
			r = egress_rule_can_allow(&rule, false, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_egress(const json_t *egress, struct err *err)
{
	const char *word = json_string_value(egress), *key;
	const json_t *value;
	int r;

	if (!egress || (word && (strcmp(word, "internet") == 0 || strcmp(word, "none") == 0)))
		return 0;
	if (!json_is_object(egress))
		return err_set(err, ERR_INVALID, -EINVAL,
			"`network.egress` must be \"internet\", \"none\" or an object with `allow` and `deny`");
	json_object_foreach((json_t *)(uintptr_t)egress, key, value) {
		if (strcmp(key, "allow") != 0 && strcmp(key, "deny") != 0)
			return err_set(err, ERR_INVALID, -EINVAL,
				"`network.egress` has `allow` and `deny`, and no `%.40s`", key);
	}
	r = check_rules(json_object_get(egress, "allow"), "allow", true, err);
	return r == 0 ? check_rules(json_object_get(egress, "deny"), "deny", false, err) : r;
}

int egress_check(const json_t *policy, struct err *err)
{
	const json_t *rate = json_object_get(policy, "bytes_per_second"), *value;
	const char *key;

	if (!json_is_object(policy))
		return err_set(err, ERR_INVALID, -EINVAL, "`network` must be an object");
	/* A word that is not known might be meant to forbid something. */
	json_object_foreach((json_t *)(uintptr_t)policy, key, value) {
		if (strcmp(key, "egress") != 0 && strcmp(key, "bytes_per_second") != 0)
			return err_set(err, ERR_INVALID, -EINVAL,
				"`network` has `egress` and `bytes_per_second`, and no `%.40s`",
				key);
	}
	if (rate &&
		(!json_is_integer(rate) || json_integer_value(rate) > EGRESS_RATE_MAX ||
			(json_integer_value(rate) < RATE_MIN && json_integer_value(rate) != 0)))
		return err_set(err, ERR_INVALID, -EINVAL,
			"`network.bytes_per_second` must be a number from %d to %lld, or 0 for no limit",
			RATE_MIN, (long long)EGRESS_RATE_MAX);
	return check_egress(json_object_get(policy, "egress"), err);
}

/* The rules of a list with commas, one by one; blanks around them do not count. */
static const char *next_rule(char *list, char **save)
{
	return strtok_r(list, ", ", save);
}

static int check_host_rules(const char *list, const char *option, bool allow, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(list ? list : "");
	struct egress_rules rules = {0};
	char *save = NULL;
	int r = 0;

	for (const char *text = next_rule(copy, &save); text && r == 0;
		text = next_rule(NULL, &save)) {
		r = egress_rules_add(&rules, text, err);
		if (r == 0 && allow)
			r = egress_rule_can_allow(&rules.all[rules.n - 1], true, err);
	}
	egress_rules_done(&rules);
	return r < 0 ? err_wrap(err, "%s", option) : r;
}

static char *find_program(void)
{
	return fs_find_own("pandastack-egress", PANDASTACK_LIBEXEC_DIR "/pandastack-egress");
}

int egress_check_host(const struct egress_host *host, struct err *err)
{
	_cleanup_free_ char *path = find_program();
	int r = check_host_rules(host->allow, "--egress-allow", true, err);

	if (r == 0)
		r = check_host_rules(host->deny, "--egress-deny", false, err);
	if (r == 0 && access(path, X_OK) < 0)
		r = err_set_errno(err, -errno, "can't run %s, which is installed with pandastack",
			path);
	return r;
}

bool egress_is_open(const json_t *policy)
{
	const char *word = json_string_value(json_object_get(policy, "egress"));

	return !word || strcmp(word, "none") != 0;
}

bool egress_has_mirror(const struct egress_host *host, const json_t *policy)
{
	return host->mirror_port != 0 && egress_is_open(policy) &&
		!json_is_object(json_object_get(policy, "egress"));
}

/* ---- the text for the helper ---- */

static void add_rules(struct buf *text, const char *word, const json_t *rules)
{
	const json_t *rule;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rules, i, rule)
		(void)buf_appendf(text, "%s %s\n", word, json_string_value(rule));
}

static void add_host_rules(struct buf *text, const char *word, const char *list)
{
	_cleanup_free_ char *copy = xstrdup(list ? list : "");
	char *save = NULL;

	for (const char *rule = next_rule(copy, &save); rule; rule = next_rule(NULL, &save))
		(void)buf_appendf(text, "%s %s\n", word, rule);
}

/* As the host's own programs find them; IPv4 only, see egress_config.h. */
static void add_resolvers(struct buf *text)
{
	struct __res_state state = {0};

	if (res_ninit(&state) != 0)
		return;
	for (int i = 0; i < state.nscount; i++) {
		struct egress_addr addr;
		char name[EGRESS_ADDR_TEXT];

		if (state.nsaddr_list[i].sin_family != AF_INET)
			continue;
		addr = egress_addr_v4((const uint8_t *)&state.nsaddr_list[i].sin_addr);
		egress_addr_text(&addr, name);
		(void)buf_appendf(text, "resolver %s\n", name);
	}
	res_nclose(&state);
}

/* Everything was checked, and is within bounds. */
static struct buf config_text(const struct egress_host *host, const json_t *policy)
{
	const json_t *egress = json_object_get(policy, "egress");
	const json_t *allow = json_object_get(egress, "allow");
	struct buf text = buf_init(EGRESS_CONFIG_MAX);

	(void)buf_appendf(&text, "config\ninternet %s\n", allow ? "no" : "yes");
	add_rules(&text, "allow", allow);
	add_rules(&text, "deny", json_object_get(egress, "deny"));
	add_host_rules(&text, "host-allow", host->allow);
	add_host_rules(&text, "host-deny", host->deny);
	add_resolvers(&text);
	if (egress_has_mirror(host, policy))
		(void)buf_appendf(&text, "mirror %u\n", (unsigned int)host->mirror_port);
	(void)buf_appendf(&text, "rate %lld\n",
		(long long)json_integer_value(json_object_get(policy, "bytes_per_second")));
	return text;
}

/* ---- a helper ---- */

struct egress {
	struct egress_callbacks callbacks;
	struct link_hub *hub;           /* borrowed */
	const struct egress_host *host; /* borrowed */
	struct vm *vm;                  /* borrowed */
	struct link_watch *card_watch;
	struct link_watch *fd_watch;
	struct link_watch *end_watch;
	unsigned int
		n_chatter; /* the hub's thread's, as the next two: frames before the helper's start */
	int64_t second_ms;      /* when it began */
	unsigned int n_denials; /* and how many came since */
	/* Held by whoever waits for an answer; before `lock`. The hub's thread takes it only to start the helper, and nobody waits before. */
	pthread_mutex_t request;
	int fd;      /* owned; to the helper; -1 until it is started */
	int pidfd;   /* owned; the process that was started; or -1 */
	bool reaped; /* the hub's thread's: that has ended */
	int card_fd; /* owned; the socket of the network card, which the helper shares once it is started; or -1 */
	json_t *policy;       /* owned; the helper's when it starts */
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t answered;
	json_t *answer; /* owned */
	bool ended;
};

static struct egress *new_egress(struct link_hub *hub, const struct egress_host *host,
	struct vm *vm, const json_t *policy, const struct egress_callbacks *callbacks)
{
	struct egress *e = xnew(struct egress);
	pthread_condattr_t attr;

	e->callbacks = *callbacks;
	e->hub = hub;
	e->host = host;
	e->vm = vm;
	e->policy = json_deep_copy(policy);
	e->fd = e->pidfd = e->card_fd = -1;
	(void)pthread_mutex_init(&e->request, NULL); /* these never fail on Linux */
	(void)pthread_mutex_init(&e->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&e->answered, &attr);
	(void)pthread_condattr_destroy(&attr);
	return e;
}

struct egress *egress_free(struct egress *e, bool end)
{
	static const char word[] = "end";

	if (!e)
		return NULL;
	/* First, for it makes the others. */
	e->card_watch = link_hub_unwatch(e->card_watch);
	e->fd_watch = link_hub_unwatch(e->fd_watch);
	e->end_watch = link_hub_unwatch(e->end_watch);
	cleanup_close(&e->card_fd);
	if (end && e->fd >= 0) /* one that does not hear it has ended */
		(void)send(e->fd, word, strlen(word), MSG_NOSIGNAL | MSG_DONTWAIT);
	cleanup_close(&e->fd);
	/* Where it has namespaces of its own the process that was started ended at once, else it ends now. */
	if (e->pidfd >= 0 && !e->reaped) {
		if (end && !spawn_ended(e->pidfd, END_TIMEOUT_MS))
			(void)pidfd_send_signal(e->pidfd, SIGKILL, NULL, 0);
		if (end || spawn_ended(e->pidfd, 0))
			(void)spawn_wait(e->pidfd);
	}
	cleanup_close(&e->pidfd);
	json_decref(e->answer);
	json_decref(e->policy);
	pthread_mutex_destroy(&e->request);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->answered);
	free(e);
	return NULL;
}

static void take_denial(struct egress *e, const json_t *denied, json_int_t more)
{
	struct egress_denial d = {.more = more};
	const char *name = json_string_value(json_object_get(denied, "name"));
	int64_t now_ms = clock_mono_ms();
	const char *why;

	if (now_ms - e->second_ms >= 1000) {
		e->second_ms = now_ms;
		e->n_denials = 0;
	}
	if (++e->n_denials > DENIALS_A_SECOND)
		return;
	if (json_unpack((json_t *)(uintptr_t)denied, "{s:s, s:s, s:i, s:s}", "protocol",
		    &d.protocol, "address", &d.address, "port", &d.port, "why", &why) < 0)
		return;
	d.name = name;
	d.why = why;
	e->callbacks.on_denied(&d, e->callbacks.user);
}

static void take_packet(struct egress *e, const char *text, size_t len)
{
	json_t *packet = json_loadb(text, len, 0, NULL);
	const json_t *denied = json_object_get(packet, "denied");

	if (denied) {
		take_denial(e, denied, json_integer_value(json_object_get(packet, "more")));
		json_decref(packet);
		return;
	}
	pthread_mutex_lock(&e->lock);
	json_decref(e->answer);
	e->answer = packet;
	pthread_cond_signal(&e->answered);
	pthread_mutex_unlock(&e->lock);
}

static void tell_end(struct egress *e)
{
	pthread_mutex_lock(&e->lock);
	e->ended = true;
	pthread_cond_signal(&e->answered);
	pthread_mutex_unlock(&e->lock);
	e->callbacks.on_ended(e->callbacks.user);
}

/* The hub's thread. */
static void on_packet(void *user)
{
	struct egress *e = user;
	char packet[PACKET_MAX];
	ssize_t n = recv(e->fd, packet, sizeof(packet), MSG_DONTWAIT);

	if (n > 0)
		take_packet(e, packet, (size_t)n);
	if (n > 0 || (n < 0 && errno == EAGAIN))
		link_hub_rearm(e->fd_watch);
	else
		tell_end(e);
}

/* The process that was started has ended: it is not to stay as a zombie. */
static void on_process_end(void *user)
{
	struct egress *e = user;

	(void)spawn_wait(e->pidfd);
	e->reaped = true;
}

static int err_gone(struct err *err)
{
	return err_set(err, ERR_ENGINE, -EPIPE, "the sandbox's egress helper has ended");
}

static int watch(struct egress *e, struct err *err)
{
	int r = link_hub_watch(e->hub, e->fd, on_packet, e, &e->fd_watch, err);

	if (r == 0 && e->pidfd >= 0)
		r = link_hub_watch(e->hub, e->pidfd, on_process_end, e, &e->end_watch, err);
	return r;
}

static int connect_to_helper(const char *dir, int *ret, struct err *err)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = dir_fd < 0 ? -errno : unix_connect(dir_fd, socket_name, SOCK_SEQPACKET);

	if (fd < 0)
		return err_set_errno(err, fd, "can't reach the egress helper");
	*ret = fd;
	return 0;
}

static int listen_for_helper(const char *dir, int *ret, struct err *err)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dir_fd >= 0)
		(void)unlinkat(dir_fd, socket_name, 0); /* of one that has ended */
	fd = dir_fd < 0 ? -errno : unix_listen(dir_fd, socket_name, SOCK_SEQPACKET);
	if (fd < 0)
		return err_set_errno(err, fd, "can't make a socket in %s", dir);
	*ret = fd;
	return 0;
}

static int send_config(const struct egress *e, struct err *err)
{
	_cleanup_buf_ struct buf text = config_text(e->host, e->policy);

	/* One that does not read is not waited for: it may be its guest's by now. */
	if (send(e->fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EPIPE ? err_gone(err)
				      : err_set_errno(err, -errno, "can't send a policy");
	return 0;
}

static int spawn_helper(struct egress *e, int listen_fd, int theirs, struct err *err)
{
	_cleanup_free_ char *path = find_program();
	const char *const argv[] = {path, NULL};
	static const char *const no_env[] = {NULL};
	const struct spawn sp = {.argv = argv,
		.env = no_env,
		.fds = {-1, -1, -1, e->card_fd, listen_fd, theirs, e->vm->pidfd},
		.n_fds = 7,
		.new_session = true};
	pid_t pid;

	return spawn_start(&sp, &pid, &e->pidfd, err);
}

static int start_helper(struct egress *e, struct err *err)
{
	_cleanup_close_ int listen_fd = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set_errno(err, -errno, "can't make a socket");
	e->fd = pair[0];
	theirs = pair[1];
	r = listen_for_helper(e->vm->dir, &listen_fd, err);
	if (r == 0)
		r = send_config(e, err);
	if (r == 0)
		r = spawn_helper(e, listen_fd, theirs, err);
	if (r == 0)
		r = watch(e, err);
	return r;
}

/*
 * Takes away what is for all and for nobody: what a card says of its groups as it comes up. Whether a frame is left, or there was more of
 * that than from any honest guest: it is the helper's then, so that it costs the daemon nothing.
 */
static bool has_frame(struct egress *e)
{
	uint8_t to[6];
	ssize_t n;

	while ((n = recv(e->card_fd, to, sizeof(to), MSG_PEEK | MSG_DONTWAIT)) >= 0) {
		if ((n == sizeof(to) && !(to[0] & 1)) || ++e->n_chatter > CHATTER_MAX)
			return true;
		(void)recv(e->card_fd, to, sizeof(to), MSG_DONTWAIT);
	}
	return false;
}

/* The hub's thread, which a start holds up for the millisecond that it takes. */
static void on_frame(void *user)
{
	struct egress *e = user;
	struct err err;
	int r;

	if (!has_frame(e)) {
		link_hub_rearm(e->card_watch);
		return;
	}
	pthread_mutex_lock(&e->request);
	r = start_helper(e, &err);
	pthread_mutex_unlock(&e->request);
	if (r < 0) {
		log_warn("an egress helper does not start", LOG_STR("error", err_msg(&err)));
		tell_end(e);
	}
}

int egress_start(struct link_hub *hub, const struct egress_host *host, struct vm *vm,
	const json_t *policy, const struct egress_callbacks *callbacks, struct egress **ret,
	struct err *err)
{
	struct egress *e = new_egress(hub, host, vm, policy, callbacks);
	int r = vm->ops->open_network(vm, &e->card_fd, err);

	if (r == 0)
		r = link_hub_watch(hub, e->card_fd, on_frame, e, &e->card_watch, err);
	if (r < 0) {
		egress_free(e, true);
		return r;
	}
	*ret = e;
	return 0;
}

int egress_adopt(struct link_hub *hub, const struct egress_host *host, struct vm *vm,
	const json_t *policy, const struct egress_callbacks *callbacks, struct egress **ret,
	struct err *err)
{
	struct egress *e = new_egress(hub, host, vm, policy, callbacks);
	int r = connect_to_helper(vm->dir, &e->fd, err);

	if (r == 0)
		r = watch(e, err);
	/* The daemon's rules may be others now. */
	if (r == 0)
		r = egress_set_policy(e, policy, err);
	if (r < 0) {
		egress_free(e, false);
		return r;
	}
	*ret = e;
	return 0;
}

/* Waits for the answer to what was just sent; `request` is held. A new reference. */
static int await_answer(struct egress *e, json_t **ret, struct err *err)
{
	struct timespec deadline = clock_deadline(ANSWER_TIMEOUT_MS);
	json_t *answer;
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	while (!e->answer && !e->ended && rc == 0)
		rc = pthread_cond_timedwait(&e->answered, &e->lock, &deadline);
	answer = steal_ptr(&e->answer);
	pthread_mutex_unlock(&e->lock);
	if (!answer)
		return rc ? err_set(err, ERR_ENGINE, -ETIMEDOUT,
				    "the sandbox's egress helper does not answer")
			  : err_gone(err);
	*ret = answer;
	return 0;
}

static void forget_answer(struct egress *e)
{
	pthread_mutex_lock(&e->lock);
	json_decref(e->answer);
	e->answer = NULL; /* a late one */
	pthread_mutex_unlock(&e->lock);
}

/* Sends the policy to the helper that runs, and waits until it has it; `request` is held. */
static int tell_policy(struct egress *e, struct err *err)
{
	json_t *answer = NULL;
	const char *why;
	int r;

	forget_answer(e);
	r = send_config(e, err);
	if (r == 0)
		r = await_answer(e, &answer, err);
	if (r < 0)
		return r;
	why = json_string_value(json_object_get(answer, "error"));
	if (!json_is_true(json_object_get(answer, "ok")))
		r = err_set(err, ERR_ENGINE, -EPROTO,
			"the egress helper refused its policy: %.200s",
			why ? why : "it does not say why");
	json_decref(answer);
	return r;
}

int egress_set_policy(struct egress *e, const json_t *policy, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&e->request);
	json_decref(e->policy);
	e->policy = json_deep_copy(policy);
	if (e->fd >= 0)
		r = tell_policy(e, err);
	pthread_mutex_unlock(&e->request);
	return r;
}

/* `request` is held. */
static int ask_stats(struct egress *e, json_t **ret, struct err *err)
{
	static const char word[] = "stats";
	json_t *answer = NULL, *stats;
	int r = 0;

	forget_answer(e);
	if (send(e->fd, word, strlen(word), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		r = err_gone(err);
	if (r == 0)
		r = await_answer(e, &answer, err);
	if (r < 0)
		return r;
	stats = json_incref(json_object_get(answer, "stats"));
	json_decref(answer);
	if (!json_is_object(stats)) {
		json_decref(stats);
		return err_set(err, ERR_ENGINE, -EPROTO, "the egress helper does not count");
	}
	*ret = stats;
	return 0;
}

int egress_stats(struct egress *e, json_t **ret, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&e->request);
	if (e->fd >= 0)
		r = ask_stats(e, ret, err);
	else
		*ret = json_pack("{s:i, s:i, s:i, s:i, s:i}", "bytes_out", 0, "bytes_in", 0,
			"connections", 0, "denied", 0, "dropped", 0);
	pthread_mutex_unlock(&e->request);
	return r;
}
