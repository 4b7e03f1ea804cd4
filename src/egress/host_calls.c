/* SPDX-License-Identifier: Apache-2.0 */
/* socket(), connect(), sendto(), send(), recvfrom() and recv() for libslirp. */
#include "egress/host_calls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "egress/peek.h"
#include "egress/route.h"

enum {
	PORT_DNS = 53,
	DATAGRAM_MAX = 65535,
	MIRROR_FLOWS_MAX = 64, /* uv opens up to 50 */
};

struct flow {
	bool open;
	bool dead;     /* refused: the guest shall see a reset */
	bool begun;    /* libslirp has written to it: a stream that is connected */
	bool judged;   /* `addr` was allowed by the config of `config_age` */
	bool resolver; /* `addr` is that of a resolver */
	bool mirror;   /* `addr` is that of the package cache */
	bool asked;    /* so it was once: answers may come late */
	enum egress_names names;
	enum egress_protocol protocol;
	struct egress_addr addr; /* as the guest names it */
	uint16_t port;
	uint64_t config_age;
	struct peek *peek; /* owned; NULL: the stream need not be looked at */
};

static struct {
	const struct egress_config *config;
	uint64_t config_age;
	int route_fd;
	struct dns_known known;
	host_calls_denied_fn *on_denied;
	void *user;
	bool denied;
	bool hold;
	unsigned int n_open, n_datagram; /* of these, not TCP */
	struct host_calls_stats stats;
	struct flow flows[HOST_CALLS_FDS_MAX];
} self = {.route_fd = -1};

/* ---- flows ---- */

static struct flow *flow_of(int fd)
{
	return fd >= 0 && fd < HOST_CALLS_FDS_MAX && self.flows[fd].open ? &self.flows[fd] : NULL;
}

static void drop_peek(struct flow *f)
{
	if (f->peek)
		peek_done(f->peek);
	free(f->peek);
	f->peek = NULL;
}

void host_calls_closed(int fd)
{
	struct flow *f = flow_of(fd);

	if (f) {
		drop_peek(f);
		f->open = false;
		self.n_open--;
		self.n_datagram -= f->protocol != EGRESS_TCP;
	}
}

void host_calls_opened(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	if (fd < 0 || fd >= HOST_CALLS_FDS_MAX)
		return;
	host_calls_closed(fd);
	self.flows[fd] = (struct flow){.open = true};
	self.n_open++;
	(void)getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len); /* else it is TCP */
	self.flows[fd].protocol = protocol == IPPROTO_UDP ? EGRESS_UDP
		: protocol == IPPROTO_ICMP                ? EGRESS_ICMP
							  : EGRESS_TCP;
	self.n_datagram += self.flows[fd].protocol != EGRESS_TCP;
}

/* ---- judging ---- */

static void refuse(const struct egress_target *t, const char *name, const char *why)
{
	self.denied = true;
	if (!self.on_denied)
		return; /* it is the proof */
	self.stats.denied++;
	self.on_denied(t, name, why, self.user);
}

void host_calls_note_denied(const struct egress_target *target, const char *why)
{
	refuse(target, NULL, why);
}

bool host_calls_was_denied(void)
{
	bool denied = self.denied;

	self.denied = false;
	return denied;
}

unsigned int host_calls_open(void)
{
	return self.n_open;
}

void host_calls_hold(bool hold)
{
	self.hold = hold;
}

const struct host_calls_stats *host_calls_stats(void)
{
	return &self.stats;
}

/* IPv4 in a socket of IPv6 is refused: no honest wire has it (RFC 4291, 2.5.5.2), and libslirp takes its errors for IPv6. */
static int take_sockaddr(const struct sockaddr *sa, socklen_t len, struct egress_addr *ret,
	uint16_t *ret_port)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (len >= sizeof(v4) && sa->sa_family == AF_INET) {
		memcpy(&v4, sa, sizeof(v4));
		*ret = egress_addr_v4((const uint8_t *)&v4.sin_addr);
		*ret_port = ntohs(v4.sin_port);
	} else if (len >= sizeof(v6) && sa->sa_family == AF_INET6) {
		memcpy(&v6, sa, sizeof(v6));
		memcpy(ret->bytes, &v6.sin6_addr, sizeof(ret->bytes));
		*ret_port = ntohs(v6.sin6_port);
	} else {
		return -EAFNOSUPPORT;
	}
	return sa->sa_family == AF_INET6 && egress_addr_is_v4(ret) ? -EADDRNOTAVAIL : 0;
}

/* The host's resolver behind an address of the guest's network, or NULL. */
static const struct egress_addr *resolver_behind(const struct egress_addr *addr, uint16_t port)
{
	static const char *const texts[] = GUEST_NET_RESOLVERS;

	for (size_t i = 0; port == PORT_DNS && i < self.config->n_resolvers; i++) {
		struct egress_addr a;

		if (egress_addr_parse(texts[i], &a) == 0 && memcmp(&a, addr, sizeof(a)) == 0)
			return &self.config->resolvers[i];
	}
	return NULL;
}

static bool is_mirror(enum egress_protocol protocol, const struct egress_addr *addr, uint16_t port)
{
	struct egress_addr a;

	return self.config->mirror_port != 0 && protocol == EGRESS_TCP &&
		port == GUEST_NET_MIRROR_PORT && egress_addr_parse(GUEST_NET_MIRROR, &a) == 0 &&
		memcmp(&a, addr, sizeof(a)) == 0;
}

/* Whether an address is allowed, by the policy and what the resolver said. */
static void judge(enum egress_protocol protocol, const struct egress_addr *addr, uint16_t port,
	struct egress_target *t, struct egress_verdict *ret)
{
	static const char *names[DNS_NAMES_MAX];
	struct egress_addr carried;

	*t = (struct egress_target){.protocol = protocol,
		.addr = *addr,
		.port = port,
		.route = route_of(self.route_fd, addr),
		.names = names};
	if (t->route == EGRESS_ROUTE_BEYOND && egress_addr_carries_v4(addr, &carried))
		t->route = route_of(self.route_fd, &carried);
	t->n_names = dns_names(&self.known, addr, clock_mono_ms(), names);
	egress_policy_check(&self.config->policy, t, ret);
}

/* A question or an answer in TCP is not looked into: where names count, questions go by UDP. */
static bool judge_resolver(const struct flow *f, const void *data, size_t len)
{
	struct egress_target t = {.protocol = f->protocol, .addr = f->addr, .port = f->port};
	char name[EGRESS_NAME_SIZE], why[EGRESS_WHY_SIZE];

	if (f->protocol == EGRESS_TCP) {
		if (self.config->policy.internet && !egress_policy_has_names(&self.config->policy))
			return true;
		refuse(&t, NULL, "the policy has names, and questions by TCP are not looked into");
		return false;
	}
	if (dns_question(data, len, name) < 0) {
		refuse(&t, NULL, "it is no question for a name");
		return false;
	}
	if (egress_policy_may_resolve(&self.config->policy, name, why))
		return true;
	refuse(&t, name, why);
	return false;
}

/* The cache is for all sandboxes: each has a share of its connections. */
static bool judge_mirror(const struct flow *f)
{
	struct egress_target t = {.protocol = f->protocol, .addr = f->addr, .port = f->port};
	unsigned int n = 0;

	for (int fd = 0; fd < HOST_CALLS_FDS_MAX; fd++)
		n += self.flows[fd].open && self.flows[fd].mirror;
	if (n <= MIRROR_FLOWS_MAX)
		return true;
	refuse(&t, NULL, "it has too many connections to the package cache");
	return false;
}

/* Judges where a flow goes, unless that is known. `data` is a datagram. */
static bool may_send(struct flow *f, const struct egress_addr *addr, uint16_t port,
	const void *data, size_t len)
{
	struct egress_verdict verdict;
	struct egress_target t;
	bool same = f->judged && f->config_age == self.config_age && f->port == port &&
		memcmp(&f->addr, addr, sizeof(*addr)) == 0;

	if (!same) {
		f->judged = false;
		f->addr = *addr;
		f->port = port;
		f->resolver = resolver_behind(addr, port);
		f->asked = f->asked || f->resolver;
	}
	if (f->resolver)
		return judge_resolver(f, data, len);
	f->mirror = is_mirror(f->protocol, addr, port);
	if (f->mirror)
		return judge_mirror(f);
	if (same)
		return true;
	judge(f->protocol, addr, port, &t, &verdict);
	if (!verdict.allowed) {
		refuse(&t, NULL, verdict.why);
		return false;
	}
	f->names = verdict.names;
	f->judged = true;
	f->config_age = self.config_age;
	return true;
}

/* Streams are looked into where a name allowed them, or could forbid them. */
static void begin_peek(struct flow *f)
{
	const struct egress_policy *p = &self.config->policy;

	if (f->resolver || f->mirror ||
		(f->names == EGRESS_NAMES_FREE && !egress_rules_have_names(&p->deny) &&
			!egress_rules_have_names(&p->host_deny)))
		return;
	f->peek = xnew(struct peek);
	peek_init(f->peek, p, f->port, f->names);
}

/* The other side sees a reset, and what was on its way there is gone; so does the guest, once it has read what came before. */
static void kill_flow(int fd, struct flow *f)
{
	static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	drop_peek(f);
	f->dead = true;
	(void)syscall(SYS_connect, fd, &nobody, sizeof(nobody)); /* cannot fail for TCP */
}

bool host_calls_begun(int fd)
{
	const struct flow *f = flow_of(fd);

	return f && f->begun;
}

void host_calls_end_mirror(void)
{
	for (int fd = 0; fd < HOST_CALLS_FDS_MAX; fd++) {
		struct flow *f = flow_of(fd);

		if (f && f->mirror && !f->dead)
			kill_flow(fd, f);
	}
}

void host_calls_set_config(const struct egress_config *config)
{
	if (config->mirror_port == 0)
		host_calls_end_mirror();
	self.config = config;
	self.config_age++;
	for (int fd = 0; fd < HOST_CALLS_FDS_MAX; fd++) {
		struct flow *f = flow_of(fd);
		struct egress_verdict verdict;
		struct egress_target t;

		if (!f || f->protocol != EGRESS_TCP || !(f->judged || f->resolver) || f->dead)
			continue;
		judge(EGRESS_TCP, &f->addr, f->port, &t, &verdict);
		if (!f->resolver && verdict.allowed && verdict.names == EGRESS_NAMES_FREE &&
			!f->peek)
			continue;
		refuse(&t, NULL, "the policy has changed");
		kill_flow(fd, f);
	}
}

int host_calls_start(void)
{
	self.route_fd = route_open();
	return self.route_fd < 0 ? self.route_fd : 0;
}

void host_calls_on_denied(host_calls_denied_fn *fn, void *user)
{
	self.on_denied = fn;
	self.user = user;
}

/* ---- the calls ---- */

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library's names are reserved ones. */
/* libslirp keeps a socket of UDP for four minutes, be it that nothing was sent: they are not to take those of connections. */
int socket(int family, int type, int protocol)
{
	if ((type & SOCK_DGRAM) && self.n_datagram >= HOST_CALLS_FDS_MAX / 2) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_socket, family, type, protocol);
}

/*
 * Where a flow is to go, as the host reaches it: the resolver, or the package cache, stands in place of its address in the guest's
 * network. `data` is a datagram. False: it may not.
 */
static bool aim(struct flow *f, const struct sockaddr *sa, socklen_t len, const void *data,
	size_t n, struct sockaddr_storage *ret)
{
	struct egress_target t = {.protocol = f->protocol};
	const struct egress_addr *real;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	int r;

	if (len > sizeof(*ret))
		return false;
	*ret = (struct sockaddr_storage){0};
	memcpy(ret, sa, len);
	r = take_sockaddr(sa, len, &t.addr, &t.port);
	if (r == -EADDRNOTAVAIL)
		refuse(&t, NULL, "it is an IPv4 address in a packet of IPv6");
	if (r < 0)
		return false;
	if (f->protocol == EGRESS_ICMP)
		t.port = 0; /* libslirp leaves it as it was */
	if (!may_send(f, &t.addr, t.port, data, n))
		return false;
	real = f->resolver ? resolver_behind(&t.addr, t.port) : NULL;
	if (real)
		memcpy(&v4->sin_addr, real->bytes + 12, sizeof(v4->sin_addr));
	if (f->mirror) {
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		v4->sin_port = htons((uint16_t)self.config->mirror_port);
	}
	return true;
}

/*
 * A connection that is refused while it is asked for, which the host does only for its own addresses: libslirp 4.7 then frees a buffer
 * that it has given away (tcp_input(), after tcp_respond()). So it is said to be under way; a socket that is not connected is
 * ready at once, and recv() says the rest.
 */
static int refuse_later(struct flow *f)
{
	drop_peek(f);
	f->dead = true;
	errno = EINPROGRESS;
	return -1;
}

int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct flow *f = flow_of(fd);
	struct sockaddr_storage to;
	int r;

	if (!f || f->protocol != EGRESS_TCP) {
		errno = EPERM;
		return -1;
	}
	if (!aim(f, sa, len, NULL, 0, &to))
		return refuse_later(f);
	self.stats.connections++;
	begin_peek(f);
	r = (int)syscall(SYS_connect, fd, &to, len);
	return r < 0 && errno == ECONNREFUSED ? refuse_later(f) : r;
}

ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *sa,
	socklen_t len)
{
	struct flow *f = flow_of(fd);
	struct sockaddr_storage to;

	if (!f || f->protocol == EGRESS_TCP || !sa || !aim(f, sa, len, data, n, &to)) {
		errno = EACCES;
		return -1;
	}
	if (self.hold)
		return (ssize_t)n;
	return (ssize_t)syscall(SYS_sendto, fd, data, n, flags | MSG_NOSIGNAL | MSG_DONTWAIT, &to,
		len);
}

static ssize_t raw_send(int fd, const void *data, size_t n, int flags)
{
	return (ssize_t)syscall(SYS_sendto, fd, data, n, flags | MSG_NOSIGNAL, NULL, 0);
}

/* All of it, into a socket to which nothing was sent yet: so it takes it, or never will. */
static bool send_held(int fd, const struct peek *p)
{
	return p->held_len == 0 || raw_send(fd, p->held, p->held_len, 0) == (ssize_t)p->held_len;
}

/*
 * send() of a stream that is looked into. The socket may take less than all, and what it did not comes again, or something else does:
 * so what is looked at ahead counts as far as it was taken.
 */
static ssize_t look_and_send(int fd, struct flow *f, const void *data, size_t n, int flags)
{
	struct egress_target t = {.protocol = EGRESS_TCP, .addr = f->addr, .port = f->port};
	char why[EGRESS_WHY_SIZE] = "urgent data can't be looked into";
	struct peek ahead = *f->peek;
	enum peek_verdict v = flags & MSG_OOB ? PEEK_REFUSE : peek_feed(&ahead, data, n, why);
	ssize_t sent;

	if (v == PEEK_PASS) {
		sent = raw_send(fd, data, n, flags);
		if (sent == (ssize_t)n)
			*f->peek = ahead;
		else if (sent > 0)
			(void)peek_feed(f->peek, data, (size_t)sent, why); /* as before */
		return sent;
	}
	*f->peek = ahead;
	if (v == PEEK_DONE && !send_held(fd, f->peek)) {
		v = PEEK_REFUSE;
		(void)snprintf(why, sizeof(why), "the other side does not take its first bytes");
	}
	if (v == PEEK_REFUSE) {
		refuse(&t, NULL, why);
		kill_flow(fd, f);
	} else if (v == PEEK_DONE) {
		drop_peek(f);
	}
	return (ssize_t)n;
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
	struct flow *f = flow_of(fd);

	if (!f)
		return raw_send(fd, data, n, flags); /* this program's own */
	f->begun = true;
	if (f->dead)
		return (ssize_t)n; /* recv() says how it ended */
	if (n > 0 && self.hold) {
		errno = EAGAIN;
		return -1;
	}
	if (n > 0 && f->peek)
		return look_and_send(fd, f, data, n, flags);
	return raw_send(fd, data, n, flags);
}

ssize_t recv(int fd, void *dst, size_t n, int flags)
{
	const struct flow *f = flow_of(fd);

	if (f && f->dead) {
		errno = ECONNRESET;
		return -1;
	}
	return (ssize_t)syscall(SYS_recvfrom, fd, dst, n, flags, NULL, NULL);
}

static bool is_resolver(const struct egress_addr *addr, uint16_t port)
{
	for (size_t i = 0; port == PORT_DNS && i < self.config->n_resolvers; i++) {
		if (memcmp(&self.config->resolvers[i], addr, sizeof(*addr)) == 0)
			return true;
	}
	return false;
}

/* From where the policy lets the flow send. *ret_answer: it is a resolver's. */
static bool is_wanted(const struct flow *f, const struct sockaddr *sa, socklen_t len,
	bool *ret_answer)
{
	struct egress_verdict verdict;
	struct egress_target t;
	struct egress_addr addr;
	uint16_t port;

	if (take_sockaddr(sa, len, &addr, &port) < 0)
		return false;
	*ret_answer = f->asked && is_resolver(&addr, port);
	if (*ret_answer)
		return true;
	/* To the guest it would come from the resolver: libslirp gives all that a socket hears the address that was asked last. */
	if (f->resolver)
		return false;
	if (f->judged && f->config_age == self.config_age && port == f->port &&
		memcmp(&f->addr, &addr, sizeof(addr)) == 0)
		return true;
	judge(EGRESS_UDP, &addr, port, &t, &verdict);
	return verdict.allowed;
}

bool host_calls_readable(int fd)
{
	static uint8_t datagram[DATAGRAM_MAX];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	const struct flow *f = flow_of(fd);
	bool answer = false;
	long n;

	if (!f || f->protocol != EGRESS_UDP)
		return true;
	/* Only answers of a resolver are read whole. */
	n = syscall(SYS_recvfrom, fd, datagram, f->asked ? sizeof(datagram) : 0,
		MSG_PEEK | MSG_DONTWAIT, &from, &len);
	if (n < 0)
		return false; /* errors have a queue of their own */
	if (is_wanted(f, (struct sockaddr *)&from, len, &answer)) {
		if (answer && egress_policy_has_names(&self.config->policy))
			dns_learn(&self.known, datagram, (size_t)n, clock_mono_ms());
		return true;
	}
	(void)syscall(SYS_recvfrom, fd, datagram, 0, MSG_DONTWAIT, NULL, NULL);
	return false;
}

/* What host_calls_readable() has said is true of the datagram that it saw, and another may be first by now. */
ssize_t recvfrom(int fd, void *dst, size_t n, int flags, struct sockaddr *sa, socklen_t *len)
{
	const struct flow *f = flow_of(fd);
	long r = syscall(SYS_recvfrom, fd, dst, n, flags | MSG_DONTWAIT, sa, len);
	bool answer;

	if (r >= 0 && f && !is_wanted(f, sa, *len, &answer)) {
		errno = EAGAIN;
		return -1;
	}
	return (ssize_t)r;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
