/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare machines: started before anybody asks.
 *
 * Theory of operation
 * -------------------
 * A spare lives in <data>/pool/<id>, with its writable disk as the template has it; when a sandbox takes it, the folder
 * becomes the sandbox's by a rename. What is below <data>/pool when a daemon starts is of one that was killed, and is
 * removed.
 *
 * How many are kept, and of which template, follows what was asked for lately (demand.h). A spare is of the current version
 * of its template; one that is not (after a build), or that no request would be for, is ended.
 *
 * One thread makes and ends them, whenever a request has taken or missed a spare and none is under way, and when the demand
 * changes by itself. It makes none while the machine has little memory left (there is a lower bound, RESERVE_PART), and
 * ends those beyond the least that shall be there; it looks again at the next request.
 *
 * A warm spare has run what a sandbox runs first: an identity, a command, a session and a cell. That leaves the
 * translated code in its process. It is not a sandbox yet: what it shares with others of its template (names, random
 * pools, the clock) is made new when one takes it. Nothing of a client has ever been in it.
 *
 * `lock` comes last but for that of a link that is ended: nothing is waited for while it is held.
 */
#include "core/pool.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/spawn.h"
#include "base/str.h"
#include "core/demand.h"
#include "core/sandbox_internal.h"

#define FIRST_TEMPLATE "code-interpreter"

enum {
	WARM_UP_MS = 60000, /* in software emulation it takes 0.5 s */
	RESERVE_PART = 4,   /* a spare is only begun while that part of all memory is available */
	IDENTITIES = 3,     /* the more often code is run, the better it is translated */
};

/* How many spares a burst of requests can make of them: about 256 MB of memory each. */
static const unsigned int most[] = {
	[POOL_PRESPAWN] = 16, /* as many as a fork has children */
	[POOL_WARM] = 4,
};
static_assert(ARRAY_SIZE(most) == _POOL_MAX, "every kind has a bound");

struct kind {
	struct demand demand;
	struct spare *first;
	uint64_t hits, misses;
};

struct pool {
	char *dir; /* owned */
	const struct engine_ops *ops;
	const struct engine_info *engine;
	struct template_set *templates;
	struct link_hub *hub;
	pthread_t thread;

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t wake;
	bool stop, look;
	int64_t looked_ms;     /* the last time */
	unsigned int requests; /* under way */
	struct link *warming;  /* borrowed from the thread */
	struct kind kinds[_POOL_MAX];
};

static const char *const kind_names[] = {
	[POOL_PRESPAWN] = "prespawn",
	[POOL_WARM] = "warm",
};
static_assert(ARRAY_SIZE(kind_names) == _POOL_MAX, "every kind has a name");

const char *pool_kind_name(enum pool_kind kind)
{
	return kind_names[kind];
}

/* ---- one spare ---- */

struct spare *spare_free(struct spare *s)
{
	if (!s)
		return NULL;
	if (s->link)
		link_fail(s->link, "the spare machine is not needed");
	link_unref(s->link);
	if (s->vm) {
		vm_kill(s->vm);
		(void)fs_remove_tree(s->vm->dir, NULL); /* best effort: the next start does it */
	}
	vm_free(s->vm);
	free(s->template);
	free(s->version);
	free(s);
	return NULL;
}

DEFINE_CLEANUP(struct spare *, spare_free)
#define _cleanup_spare_ CLEANUP(spare_freep)

static struct spare *spare_new(enum pool_kind kind, const struct template *t)
{
	struct spare *s = xnew(struct spare);

	s->kind = kind;
	s->template = xstrdup(t->name);
	s->version = xstrdup(t->version);
	return s;
}

/* A request with a body, and all that comes back, which nobody reads. */
static int converse(struct link *link, json_t *request, const char *body, struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t deadline = clock_mono_ms() + WARM_UP_MS;
	int r = link_open(link, request, &s, err);
	bool closed = false;

	if (r == 0)
		r = link_send(s, body, strlen(body), deadline, -1, err);
	if (r == 0)
		r = link_end(s, err);
	while (r == 0 && !closed) {
		struct link_event ev;

		r = link_next(s, &ev, deadline, -1, err);
		if (r == 0)
			return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "the guest did not answer");
		if (r < 0)
			return r;
		closed = ev.type == LINK_CLOSE;
		link_event_done(s, &ev);
		r = 0;
	}
	return r;
}

static int warm_session(struct link *link, const char *language, struct err *err)
{
	char id[SANDBOX_ID_SIZE];
	int r;

	core_make_id(id);
	r = link_call(link,
		json_pack("{s:s, s:s, s:s}", "op", "session_create", "session", id, "language",
			language),
		WARM_UP_MS, -1, NULL, err);
	if (r == 0)
		r = converse(link,
			json_pack("{s:s, s:s, s:I}", "op", "session_run", "session", id,
				"timeout_ms", (json_int_t)WARM_UP_MS),
			"1+1", err);
	if (r == 0)
		r = link_call(link, json_pack("{s:s, s:s}", "op", "session_delete", "session", id),
			WARM_UP_MS, -1, NULL, err);
	return r;
}

static int warm_up(struct link *link, const struct template *t, struct err *err)
{
	char id[SANDBOX_ID_SIZE];
	int r = 0;

	for (int i = 0; r == 0 && i < IDENTITIES; i++) {
		core_make_id(id);
		r = link_call(link, sandbox_identity_request(id, NULL), WARM_UP_MS, -1, NULL, err);
	}
	if (r == 0)
		r = converse(link,
			json_pack("{s:s, s:s, s:b, s:I}", "op", "exec", "cmd", "true", "stdin", 0,
				"timeout_ms", (json_int_t)WARM_UP_MS),
			"", err);
	if (r == 0 && t->kernel)
		r = warm_session(link, t->kernel, err);
	return r;
}

/* What pool_free() interrupts. */
static void set_warming(struct pool *p, struct link *link)
{
	pthread_mutex_lock(&p->lock);
	p->warming = link;
	if (link && p->stop)
		link_fail(link, "the daemon ends");
	pthread_mutex_unlock(&p->lock);
}

static int let_run(struct pool *p, struct spare *s, const struct vm_spec *spec,
	const struct template *t, struct err *err)
{
	int r = p->ops->load(s->vm, spec, err);

	if (r == 0)
		r = link_new(p->hub, vm_take_link(s->vm), false, &s->link, err);
	if (r < 0)
		return r;
	set_warming(p, s->link);
	r = warm_up(s->link, t, err);
	set_warming(p, NULL);
	return r;
}

static int make(struct pool *p, enum pool_kind kind, const struct template *t, struct spare **ret,
	struct err *err)
{
	_cleanup_spare_ struct spare *s = spare_new(kind, t);
	_cleanup_free_ char *dir = NULL, *disk = NULL, *own_disk = NULL;
	char id[SANDBOX_ID_SIZE];
	struct vm_spec spec;
	int r;

	core_make_id(id);
	dir = fs_join(p->dir, id);
	disk = fs_join(t->image.dir, "scratch.ext4");
	own_disk = fs_join(dir, "scratch.ext4");
	spec = (struct vm_spec){.image = &t->image, .dir = dir};
	r = fs_mkdirs(dir, 0700, err);
	if (r == 0)
		r = fs_clone(disk, own_disk, 0600, err);
	if (r == 0)
		r = p->ops->start(&spec, &s->vm, err);
	if (r < 0) {
		(void)fs_remove_tree(dir, NULL); /* best effort: the next start does it */
		return r;
	}
	r = p->ops->settle(s->vm, err);
	if (r == 0 && kind == POOL_WARM)
		r = let_run(p, s, &spec, t, err);
	if (r == 0)
		*ret = steal_ptr(&s);
	return r;
}

/* ---- filling ---- */

/* A figure of /proc/meminfo, in KiB; 0 when it is not there. */
static uint64_t meminfo(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	char digits[24] = "";
	uint64_t value = 0;
	size_t len;

	if (!at)
		return 0;
	at += strlen(name);
	at += strspn(at, ": ");
	len = strspn(at, "0123456789");
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)MIN(len, sizeof(digits) - 1), at);
	(void)parse_u64(digits, 0, UINT64_MAX, &value);
	return value;
}

static bool memory_left(void)
{
	char text[4096];
	FILE *f = fopen("/proc/meminfo", "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		(void)fclose(f);
	text[n] = '\0';
	return meminfo(text, "MemAvailable") >= meminfo(text, "MemTotal") / RESERVE_PART;
}

/* Waits until no request is under way. False when there is something else to do: it ends, or has to look again. */
static bool wait_for_quiet(struct pool *p)
{
	bool go_on;

	pthread_mutex_lock(&p->lock);
	while (p->requests > 0 && !p->stop)
		pthread_cond_wait(&p->wake, &p->lock);
	go_on = !p->stop && !p->look;
	pthread_mutex_unlock(&p->lock);
	return go_on;
}

/* From one list to another. */
static void move(struct spare **at, struct spare **to)
{
	struct spare *s = *at;

	*at = s->next;
	s->next = *to;
	*to = s;
}

static void free_all(struct spare *first)
{
	while (first) {
		struct spare *next = first->next;

		spare_free(first);
		first = next;
	}
}

/* Ends the spares of that template beyond `want`, and those of another version; returns how many are left. */
static unsigned int keep_only(struct pool *p, struct kind *k, const char *template,
	const char *version, unsigned int want)
{
	struct spare *surplus = NULL;
	unsigned int n = 0;

	pthread_mutex_lock(&p->lock);
	for (struct spare **at = &k->first; *at;) {
		struct spare *s = *at;

		if (strcmp(s->template, template) != 0) {
			at = &s->next;
		} else if (n < want && strcmp(s->version, version) == 0 &&
			!spawn_ended(s->vm->pidfd, 0)) {
			n++;
			at = &s->next;
		} else {
			move(at, &surplus);
		}
	}
	pthread_mutex_unlock(&p->lock);
	free_all(surplus);
	return n;
}

/* Adds to those of template t until there are `want`. */
static void fill_template(struct pool *p, enum pool_kind kind, const struct template *t,
	unsigned int n, unsigned int want)
{
	struct kind *k = &p->kinds[kind];

	for (; n < want && wait_for_quiet(p) && memory_left(); n++) {
		int64_t start = clock_mono_ms();
		struct spare *s = NULL;
		struct err err = {0};
		bool stop;

		if (make(p, kind, t, &s, &err) < 0) {
			pthread_mutex_lock(&p->lock);
			stop = p->stop;
			pthread_mutex_unlock(&p->lock);
			if (!stop)
				log_warn("no spare machine", LOG_STR("pool", pool_kind_name(kind)),
					LOG_STR("template", t->name),
					LOG_STR("error", err_msg(&err)));
			return; /* until it is asked for again */
		}
		pthread_mutex_lock(&p->lock);
		s->next = k->first;
		k->first = s;
		pthread_mutex_unlock(&p->lock);
		log_debug("spare machine ready", LOG_STR("pool", pool_kind_name(kind)),
			LOG_STR("template", t->name), LOG_STR("version", t->version),
			LOG_INT("took_ms", clock_mono_ms() - start));
	}
}

/* Ends the spares of templates of which none shall be kept. */
static void drop_unwanted(struct pool *p, struct kind *k, const struct demand *d, unsigned int keep)
{
	struct spare *surplus = NULL;

	pthread_mutex_lock(&p->lock);
	for (struct spare **at = &k->first; *at;) {
		if (demand_share(d, keep, (*at)->template) > 0)
			at = &(*at)->next;
		else
			move(at, &surplus);
	}
	pthread_mutex_unlock(&p->lock);
	free_all(surplus);
}

static void fill(struct pool *p, enum pool_kind kind)
{
	struct kind *k = &p->kinds[kind];
	unsigned int keep, want;
	struct demand d;
	int64_t now;

	pthread_mutex_lock(&p->lock);
	d = k->demand;
	now = p->looked_ms;
	pthread_mutex_unlock(&p->lock);
	keep = memory_left() ? demand_keep(&d, now) : d.least;
	want = MIN(demand_make(&d, now), keep);
	drop_unwanted(p, k, &d, keep);
	for (unsigned int i = 0; i < keep; i++) {
		_cleanup_template_ struct template *t = NULL;
		const char *name = demand_template(&d, i);
		unsigned int n;

		if (demand_share(&d, i, name) > 0)
			continue; /* it has had its turn */
		if (template_load(p->templates, name, &t, NULL) < 0 ||
			template_check_engine(t, p->engine, NULL) < 0) {
			(void)keep_only(p, k, name, "", 0);
			continue;
		}
		n = keep_only(p, k, name, t->version, demand_share(&d, keep, name));
		fill_template(p, kind, t, n, demand_share(&d, want, name));
	}
}

/* Until somebody asks or has been served, or the demand changes by itself. The lock is held. */
static void wait_for_news(struct pool *p)
{
	int64_t next = INT64_MAX;
	struct timespec until;

	for (int kind = 0; kind < _POOL_MAX; kind++)
		next = MIN(next, demand_changes(&p->kinds[kind].demand, p->looked_ms));
	if (next == INT64_MAX) {
		pthread_cond_wait(&p->wake, &p->lock);
		return;
	}
	until = clock_deadline(MAX(next - clock_mono_ms(), (int64_t)0));
	if (pthread_cond_timedwait(&p->wake, &p->lock, &until) == ETIMEDOUT)
		p->look = true;
}

static void *pool_main(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		if (!p->look) {
			wait_for_news(p);
			continue;
		}
		p->look = false;
		p->looked_ms = clock_mono_ms();
		pthread_mutex_unlock(&p->lock);
		if (wait_for_quiet(p)) {
			for (int kind = 0; kind < _POOL_MAX; kind++)
				fill(p, (enum pool_kind)kind);
		}
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- the interface ---- */

/* What a daemon left that was killed. */
static int remove_left(struct pool *p, struct err *err)
{
	DIR *dir = opendir(p->dir);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(p->dir, e->d_name);

		if (e->d_name[0] == '.')
			continue;
		p->ops->kill_left(path);
		log_info("removed a spare machine", LOG_STR("spare", e->d_name));
	}
	if (dir)
		(void)closedir(dir);
	return fs_remove_tree(p->dir, err);
}

int pool_new(const struct pool_config *config, struct pool **ret, struct err *err)
{
	struct pool *p = xnew(struct pool);
	pthread_condattr_t attr;
	int r;

	p->dir = fs_join(config->data_dir, "pool");
	p->ops = config->ops;
	p->engine = config->engine;
	p->templates = config->templates;
	p->hub = config->hub;
	(void)pthread_mutex_init(&p->lock, NULL); /* these never fail on Linux */
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&p->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	for (int kind = 0; kind < _POOL_MAX; kind++) {
		demand_init(&p->kinds[kind].demand, config->sizes[kind], most[kind],
			FIRST_TEMPLATE);
		p->look |= config->sizes[kind] > 0;
	}
	r = remove_left(p, err);
	if (r == 0) {
		r = -pthread_create(&p->thread, NULL, pool_main, p);
		if (r < 0)
			(void)err_set_errno(err, r, "can't start a thread");
	}
	if (r < 0) {
		free(p->dir);
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct pool *pool_free(struct pool *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	if (p->warming)
		link_fail(p->warming, "the daemon ends");
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	(void)pthread_join(p->thread, NULL);
	for (int kind = 0; kind < _POOL_MAX; kind++)
		free_all(p->kinds[kind].first);
	(void)rmdir(p->dir); /* it may never have been there */
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	free(p->dir);
	free(p);
	return NULL;
}

/* The first that fits, out of the list; the lock is held. */
static struct spare *unlink_one(struct kind *k, const struct template *t)
{
	for (struct spare **at = &k->first; *at; at = &(*at)->next) {
		struct spare *s = *at;

		if (strcmp(s->template, t->name) == 0 && strcmp(s->version, t->version) == 0) {
			*at = s->next;
			return s;
		}
	}
	return NULL;
}

struct spare *pool_take(struct pool *p, enum pool_kind kind, const struct template *t)
{
	struct kind *k = &p->kinds[kind];
	struct spare *s, *dead = NULL;

	if (k->demand.least == 0)
		return NULL;
	pthread_mutex_lock(&p->lock);
	while ((s = unlink_one(k, t)) && spawn_ended(s->vm->pidfd, 0)) {
		s->next = dead;
		dead = s;
	}
	if (s)
		k->hits++;
	else
		k->misses++;
	demand_ask(&k->demand, t->name, clock_mono_ms());
	p->look = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	free_all(dead);
	return s;
}

void pool_pause(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->requests++;
	pthread_mutex_unlock(&p->lock);
}

void pool_resume(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->requests--;
	for (int kind = 0; p->requests == 0 && kind < _POOL_MAX; kind++)
		demand_pause(&p->kinds[kind].demand);
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

void pool_look(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->look = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

void pool_stats(struct pool *p, struct pool_stats *ret)
{
	*ret = (struct pool_stats){0};
	pthread_mutex_lock(&p->lock);
	for (int kind = 0; kind < _POOL_MAX; kind++) {
		const struct kind *k = &p->kinds[kind];

		ret->hits[kind] = k->hits;
		ret->misses[kind] = k->misses;
		for (const struct spare *s = k->first; s; s = s->next)
			ret->spares[kind]++;
	}
	pthread_mutex_unlock(&p->lock);
}
