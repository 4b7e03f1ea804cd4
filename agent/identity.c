/* SPDX-License-Identifier: Apache-2.0 */
/* What must differ between two machines restored from one snapshot: `resume`. */
/*
 * Theory of operation
 *
 * All machines of a template wake up with the same memory: the same clock, the same state of the
 * random number generator. `resume` is the first request after every restore and nothing of the
 * user's runs before its answer: clock, then 64 bytes of the host's entropy credited to the
 * kernel's generator and a forced reseed (random(4)), then host name, machine id and boot id, then
 * the sandbox's environment. A step that fails fails the whole, for a machine that shares its random
 * numbers with another must not run.
 *
 * /proc/sys/kernel/random/boot_id cannot be set; a file is mounted over it, like systemd-nspawn does. The machine's names
 * below /etc are such files too, as container engines have them: a full disk is no obstacle. All are kept open, for to find
 * a file by its name is more code than all else here, and a restored machine has to translate it first.
 *
 * Without `machine_id` the machine is the one that it was, after a pause: it gets the time and fresh entropy, and keeps
 * its names and what its kernels were seeded with. `network` says whether it has a way out from now on, and `new_network` that
 * its connections lead nowhere: then they are ended.
 *
 * An ordinary process (tests) leaves the machine alone and writes only its files below `root`.
 */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <time.h>

#include "agent.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "env.h"
#include "file_io.h"
#include "network.h"
#include "packages.h"
#include "session.h"

enum {
	ENTROPY_BYTES = 64,
	MACHINE_ID_CHARS = 32,
	HOST_NAME_BYTES = 64, /* Linux: __NEW_UTS_LEN */
	HOSTS_BYTES = 256 * 1024,
};

struct identity {
	int64_t time_ns;
	uint8_t entropy[ENTROPY_BYTES];
	const char *hostname;
	const char *machine_id; /* NULL: no new identity */
	const json_t *network;  /* a boolean: whether there is a way out; NULL: as it was */
	bool new_network;       /* that of its connections is gone */
};

static bool is_hostname(const char *s)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

	return s && *s && strlen(s) <= HOST_NAME_BYTES && !s[strspn(s, allowed)];
}

static int parse(const json_t *request, struct identity *ret, struct err *err)
{
	const char *entropy = request_text(request, "entropy");
	const char *wrong = env_check_json(json_object_get(request, "env"));
	size_t len = 0;

	if (wrong)
		return err_set(err, ERR_INVALID, -EINVAL, "%s", wrong);
	ret->time_ns = json_integer_value(json_object_get(request, "time_ns"));
	if (ret->time_ns <= 0)
		return err_set(err, ERR_INVALID, -EINVAL, "\"time_ns\" must be a time");
	if (!entropy ||
		base64_decode(entropy, strlen(entropy), ret->entropy, ENTROPY_BYTES, &len) < 0 ||
		len != ENTROPY_BYTES)
		return err_set(err, ERR_INVALID, -EINVAL, "\"entropy\" must be %d bytes in base64",
			ENTROPY_BYTES);
	ret->network = json_object_get(request, "network");
	if (ret->network && !json_is_boolean(ret->network))
		return err_set(err, ERR_INVALID, -EINVAL, "\"network\" must be true or false");
	ret->new_network = json_is_true(json_object_get(request, "new_network"));
	ret->machine_id = request_text(request, "machine_id");
	if (!json_object_get(request, "machine_id"))
		return 0;
	ret->hostname = request_text(request, "hostname");
	if (!is_hostname(ret->hostname))
		return err_set(err, ERR_INVALID, -EINVAL, "\"hostname\" is no host name");
	if (!ret->machine_id || strlen(ret->machine_id) != MACHINE_ID_CHARS ||
		ret->machine_id[strspn(ret->machine_id, "0123456789abcdef")])
		return err_set(err, ERR_INVALID, -EINVAL, "\"machine_id\" must be %d hex digits",
			MACHINE_ID_CHARS);
	return 0;
}

static int set_clock(int64_t time_ns)
{
	struct timespec ts = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

static int reseed(int random_fd, const uint8_t entropy[ENTROPY_BYTES])
{
	union {
		struct rand_pool_info info;
		uint8_t bytes[sizeof(struct rand_pool_info) + ENTROPY_BYTES];
	} pool = {.info = {.entropy_count = ENTROPY_BYTES * 8, .buf_size = ENTROPY_BYTES}};

	memcpy(pool.bytes + offsetof(struct rand_pool_info, buf), entropy, ENTROPY_BYTES);
	if (ioctl(random_fd, RNDADDENTROPY, &pool) < 0 || ioctl(random_fd, RNDRESEEDCRNG) < 0)
		return -errno;
	return 0;
}

/* A random UUID, version 4 (RFC 9562). Only after the reseed. */
static int new_boot_id(int fd)
{
	uint8_t id[16];
	char hex[2 * sizeof(id) + 1], text[48];

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return -errno;
	id[6] = (uint8_t)((id[6] & 0x0F) | 0x40);
	id[8] = (uint8_t)((id[8] & 0x3F) | 0x80);
	str_hex(hex, id, sizeof(id));
	(void)snprintf(text, sizeof(text), "%.8s-%.4s-%.4s-%.4s-%s\n", hex, hex + 8, hex + 12,
		hex + 16, hex + 20);
	return file_replace(fd, text);
}

static int open_file(const char *path, int mode)
{
	return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		(mode_t)mode);
}

/* Mounts a copy in memory over the file. Returns the copy's descriptor for the file's, which it keeps where that fails. */
static int cover(int fd, const char *path, const char *copy_path, int mode)
{
	_cleanup_buf_ struct buf text = buf_init(HOSTS_BYTES);
	_cleanup_close_ int copy = open_file(copy_path, mode);

	if (copy < 0 || file_read_all(fd, &text) < 0 || file_replace(copy, text.data) < 0 ||
		mount(copy_path, path, NULL, MS_BIND, NULL) < 0)
		return fd;
	(void)close(fd);
	return steal_fd(&copy);
}

static int open_name(const struct agent *agent, const char *name, int mode)
{
	_cleanup_free_ char *path = NULL, *copy_path = NULL;
	int fd;

	if (asprintf(&path, "%s/etc/%s", agent->config.root, name) < 0 ||
		asprintf(&copy_path, "/run/pandastack-%s", name) < 0)
		abort();
	fd = open_file(path, mode);
	return agent->config.init ? cover(fd, path, copy_path, mode) : fd;
}

void identity_init(struct agent *agent)
{
	static const char boot_id[] = "/run/pandastack-boot-id";
	struct identity_files *files = &agent->files;

	files->hostname = open_name(agent, "hostname", 0644);
	files->hosts = open_name(agent, "hosts", 0644);
	files->machine_id = open_name(agent, "machine-id", 0444);
	files->boot_id = files->random = -1;
	if (!agent->config.init)
		return;
	files->random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	files->boot_id = open_file(boot_id, 0444);
	/* Without it the machine runs as well; its boot id is then that of its template. */
	if (new_boot_id(files->boot_id) == 0)
		(void)mount(boot_id, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL);
}

void identity_done(struct agent *agent)
{
	struct identity_files *files = &agent->files;

	cleanup_close(&files->hostname);
	cleanup_close(&files->hosts);
	cleanup_close(&files->machine_id);
	cleanup_close(&files->boot_id);
	cleanup_close(&files->random);
}

/* A line of /etc/hosts for the address of the machine's name: a blank follows it. */
static bool is_ours(const char *line)
{
	static const char address[] = "127.0.1.1";

	return str_starts_with(line, address) && strchr(" \t\n", line[strlen(address)]);
}

/* The machine's name resolves, as on a Debian system: one line of /etc/hosts is ours. One that can't be read whole (a
 * long list of what is to be blocked) stays as it is. */
static int put_hosts(int fd, const char *hostname)
{
	_cleanup_buf_ struct buf old = buf_init(HOSTS_BYTES);
	_cleanup_buf_ struct buf new = buf_init(HOSTS_BYTES + HOST_NAME_BYTES + 16);
	const char *line, *next;
	int r = 0;

	if (file_read_all(fd, &old) < 0 || strlen(old.data) < old.len)
		return 0;
	for (line = old.data; *line && r == 0; line = next) {
		next = line + strcspn(line, "\n");
		if (!is_ours(line))
			r = buf_appendf(&new, "%.*s\n", (int)(next - line), line);
		next += *next == '\n';
	}
	if (r == 0)
		r = buf_appendf(&new, "127.0.1.1\t%s\n", hostname);
	return r < 0 ? r : file_replace(fd, new.data);
}

static int put_names(const struct identity_files *files, const struct identity *id)
{
	char line[HOST_NAME_BYTES + 2];
	int r;

	(void)snprintf(line, sizeof(line), "%s\n", id->machine_id);
	r = file_replace(files->machine_id, line);
	if (r < 0)
		return r;
	(void)snprintf(line, sizeof(line), "%s\n", id->hostname);
	r = file_replace(files->hostname, line);
	return r < 0 ? r : put_hosts(files->hosts, id->hostname);
}

static int change_network(struct agent *agent, const struct identity *id)
{
	bool up = json_is_true(id->network);
	int r = 0;

	if (id->network && up != agent->network_up)
		r = network_set_up(up);
	if (r == 0 && id->network)
		agent->network_up = up;
	return r;
}

static int become(struct agent *agent, const struct identity *id, struct err *err)
{
	int r;

	if (agent->config.init) {
		r = set_clock(id->time_ns);
		if (r < 0)
			return err_set_errno(err, r, "setting the clock");
		r = reseed(agent->files.random, id->entropy);
		if (r < 0)
			return err_set_errno(err, r, "reseeding the random number generator");
		r = change_network(agent, id);
		if (r < 0)
			return err_set_errno(err, r, "changing the network");
		if (!id->machine_id)
			return 0;
		if (sethostname(id->hostname, strlen(id->hostname)) < 0)
			return err_set_errno(err, -errno, "setting the host name");
		r = new_boot_id(agent->files.boot_id);
		if (r < 0)
			return err_set_errno(err, r, "making a boot id");
	}
	r = id->machine_id ? put_names(&agent->files, id) : 0;
	return r < 0 ? err_set_errno(err, r, "writing the machine's names below /etc") : 0;
}

/* The answer does not wait for it, but whatever is asked next does. */
static void end_connections(struct agent *agent)
{
	int r;

	link_flush(&agent->link);
	r = network_reset_connections(&agent->diag);
	if (r < 0)
		log_error("connections of the machine's past hang", LOG_STR("why", strerror(-r)));
}

void identity_resume(struct agent *agent, struct stream *s, const json_t *request)
{
	struct identity id = {0};
	struct err err;

	if (parse(request, &id, &err) < 0 || become(agent, &id, &err) < 0) {
		stream_fail(s, &err);
		return;
	}
	packages_set(agent, json_object_get(request, "packages"));
	if (id.machine_id) {
		json_decref(agent->env);
		agent->env = json_deep_copy(json_object_get(request, "env"));
		session_reseed_all(agent);
	}
	stream_close(s, json_object());
	if (id.new_network && agent->config.init)
		end_connections(agent);
}
