/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pandastack serve`: wiring, from the options to the end by a signal.
 *
 * Everything is started in the order in which it depends on each other, and ended in the opposite
 * one: package cache, core (adopts what still runs), keys, HTTP server, then the files that tell others
 * where it is. The signals are blocked in all threads and waited for by the first, so that no code runs in a
 * handler.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data_dir.h"
#include "base/fs.h"
#include "base/log.h"
#include "core/core.h"
#include "daemon/config.h"
#include "daemon/credentials.h"
#include "engine/firecracker_probe.h"
#include "http/auth.h"
#include "http/http.h"
#include "http/server.h"
#include "mirror/mirror.h"

enum {
	DIR_MODE = 0700,
	FILE_MODE = 0600,
	/* Threads share few heaps, and bigger blocks go back to the system when they are freed. */
	HEAPS_MAX = 2,
	MMAP_THRESHOLD_BYTES = 256 << 10,
};

struct paths {
	char *data; /* owned, as all here */
	char *templates;
	char *state;       /* daemon.json */
	char *own_config;  /* config.json in the data folder */
	char *preview_key; /* preview.key */
	char *user_config; /* the user's config.json; NULL when the data folder is not the default
			    */
};

struct daemon {
	struct paths paths;
	struct mirror *mirror; /* NULL: there is no package cache */
	struct core *core;
	struct auth *auth;
	struct http_limits limits;
	struct preview_key preview_key;
	struct http_server *server;
	char url[HTTP_ADDRESS_SIZE + 8];
};

/* Where published clients and the command line look; NULL where there is no home. */
static char *find_user_config(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (xdg && *xdg == '/')
		return fs_join(xdg, "pandastack/config.json");
	return home && *home == '/' ? fs_join(home, ".config/pandastack/config.json") : NULL;
}

static int find_paths(const struct serve_config *config, struct paths *ret, struct err *err)
{
	_cleanup_free_ char *default_dir = NULL;
	const char *data = config->data_dir;
	int r = data_dir_default(&default_dir, data ? NULL : err);

	if (r < 0 && !data)
		return r;
	if (!data)
		data = default_dir;
	r = fs_mkdirs(data, DIR_MODE, err);
	if (r < 0)
		return r;
	ret->data = realpath(data, NULL);
	if (!ret->data)
		return err_set_errno(err, -errno, "can't find %s", data);
	ret->templates =
		config->templates ? strdup(config->templates) : fs_join(ret->data, "templates");
	ret->state = fs_join(ret->data, "daemon.json");
	ret->own_config = fs_join(ret->data, "config.json");
	ret->preview_key = fs_join(ret->data, "preview.key");
	if (default_dir && strcmp(data, default_dir) == 0)
		ret->user_config = find_user_config();
	return 0;
}

static void paths_done(struct paths *p)
{
	free(p->data);
	free(p->templates);
	free(p->state);
	free(p->own_config);
	free(p->preview_key);
	free(p->user_config);
}

/* Tells other programs of this machine that we serve, and where. */
static int write_state(const struct daemon *d, struct err *err)
{
	json_t *state = json_pack("{s:i, s:s}", "pid", (int)getpid(), "api_url", d->url);
	_cleanup_free_ char *text = json_dumps(state, JSON_INDENT(2));

	json_decref(state);
	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return fs_write_atomic(d->paths.state, text, strlen(text), FILE_MODE, err);
}

/* Writes address and key where clients look for them; *ret is that file. */
static int write_credentials(struct daemon *d, const char **ret, struct err *err)
{
	int r = -EEXIST;

	if (d->paths.user_config) {
		*ret = d->paths.user_config;
		r = credentials_update(*ret, d->url, d->auth, err);
		if (r == -EEXIST)
			log_warn("another service's key is left as it is", LOG_STR("file", *ret));
	}
	if (r == -EEXIST) {
		*ret = d->paths.own_config;
		r = credentials_update(*ret, d->url, d->auth, err);
	}
	if (r == 1)
		log_info("made an API key", LOG_STR("file", *ret));
	return r < 0 ? r : 0;
}

static int start_core(struct daemon *d, const struct serve_config *config, struct err *err)
{
	const struct core_config core = {.data_dir = d->paths.data,
		.template_dir = d->paths.templates,
		.engine = config->engine,
		.compress_snapshots = strcmp(config->snapshot_compression, "zstd") == 0,
		.egress = {.allow = config->egress_allow,
			.deny = config->egress_deny,
			.mirror_port = d->mirror ? mirror_port(d->mirror) : 0,
			.packages = d->mirror ? mirror_settings(d->mirror) : NULL},
		.pool_sizes = {[POOL_PRESPAWN] = config->prespawn, [POOL_WARM] = config->warm}};
	int r = firecracker_use(config->firecracker, err);

	return r < 0 ? r : core_new(&core, &d->core, err);
}

static int start(struct daemon *d, const struct serve_config *config, struct err *err)
{
	const char *credentials;
	int r = find_paths(config, &d->paths, err);

	if (r == 0 && config->package_cache)
		r = mirror_start(config->package_cache, config->package_cache_size, &d->mirror,
			err);
	if (r == 0)
		r = start_core(d, config, err);
	if (r == 0)
		r = auth_new(core_store(d->core), &d->auth, err);
	if (r == 0)
		r = preview_key_load(d->paths.preview_key, &d->preview_key, err);
	d->limits = (struct http_limits){config->max_output, config->max_results};
	if (r == 0)
		r = http_server_start(config->listen, d->core, d->auth, &d->preview_key, &d->limits,
			&d->server, err);
	if (r < 0)
		return r;
	(void)snprintf(d->url, sizeof(d->url), "http://%s", http_server_address(d->server));
	r = write_credentials(d, &credentials, err);
	if (r == 0)
		r = write_state(d, err);
	if (r == 0)
		log_info("ready", LOG_STR("url", d->url), LOG_STR("key", credentials),
			LOG_STR("data", d->paths.data));
	return r;
}

static void stop(struct daemon *d, bool keep)
{
	if (d->server)
		(void)unlink(d->paths.state); /* a stale one names a process that is gone */
	d->server = http_server_stop(d->server);
	d->auth = auth_free(d->auth);
	if (d->core)
		d->core = core_free(d->core, keep);
	/* The helpers of machines that run on have been let go of: they lead nobody to its port any more. */
	d->mirror = mirror_stop(d->mirror);
	paths_done(&d->paths);
}

static void wait_for_signal(const sigset_t *signals)
{
	siginfo_t info;

	while (sigwaitinfo(signals, &info) < 0)
		;
	log_info("ending; a second signal ends at once",
		LOG_STR("signal", strsignal(info.si_signo)));
	/* Their default action is to end the process; this thread alone lets them in. */
	(void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

/* A sandbox takes three, a request up to three: more than the 1,024 that most systems give at first. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE,
		&limit); /* the soft limit may always rise up to the hard one */
}

static void prepare_process(const struct serve_config *config, sigset_t *ret_signals)
{
	static const char *const levels[] = {[LOG_ERROR] = "error",
		[LOG_WARN] = "warn",
		[LOG_INFO] = "info",
		[LOG_DEBUG] = "debug"};
	int level = LOG_DEBUG;

	while (level > LOG_ERROR && strcmp(levels[level], config->log_level) != 0)
		level--;
	log_init((enum log_level)level, strcmp(config->log_format, "json") == 0);
	(void)umask(077);
	(void)mallopt(M_ARENA_MAX, HEAPS_MAX);
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD,
		SIG_DFL); /* ignored, it would take the exit status of our children away */
	allow_descriptors();
	(void)sigemptyset(ret_signals);
	(void)sigaddset(ret_signals, SIGTERM);
	(void)sigaddset(ret_signals, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, ret_signals, NULL);
}

static const char *env(const char *name)
{
	return getenv(name);
}

int daemon_main(int argc, char **argv)
{
	struct serve_config config;
	struct daemon d = {0};
	struct err err = {0};
	sigset_t signals;
	int r = serve_config_parse(argc, argv, env, &config, &err);

	if (r < 0) {
		(void)fprintf(stderr, "pandastack serve: %s\n", err_msg(&err));
		return err_cli_exit(err.kind);
	}
	if (config.help) {
		serve_config_help(stdout);
		return 0;
	}
	if (sodium_init() < 0) {
		(void)fprintf(stderr, "pandastack serve: the system has no source of randomness\n");
		return 1;
	}
	prepare_process(&config, &signals);
	r = start(&d, &config, &err);
	if (r < 0)
		log_error("can't start", LOG_STR("error", err_msg(&err)));
	else
		wait_for_signal(&signals);
	stop(&d, config.keep || r < 0); /* a start that fails ends nobody's sandboxes */
	return r < 0 ? err_cli_exit(err.kind) : 0;
}
