/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups of machines (cgroups(7), and cgroup-v2.rst of the kernel's documentation), where distributions mount them. */
#include "engine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/spawn.h"

#define MOUNT_POINT "/sys/fs/cgroup"
#define PREFIX "pandastack-"
#define OWN_LEAF "/daemon" /* where the daemon moves; a unit says DelegateSubgroup=daemon */

enum {
	TEXT_BYTES = 4096,
	NAME_BYTES = 64,
	/* For the engine, and for what the host keeps of the guest's memory: its page tables, mostly. */
	MEMORY_ROOM_MIB = 128,
	MEMORY_ROOM_PART = 16,
	/* The engine's threads, and one for each CPU. */
	PIDS_ROOM = 32,
	PERIOD_US = 100000, /* the kernel's own */
	END_TIMEOUT_MS = 2000,
};

static const struct {
	const char *name;
	const char *limit[2]; /* version 1, and 2 */
} controllers[] = {
	{"memory", {"memory.limit_in_bytes", "memory.max"}},
	{"pids", {"pids.max", "pids.max"}},
	{"cpu", {"cpu.cfs_quota_us", "cpu.max"}},
};
static_assert(ARRAY_SIZE(controllers) == CGROUP_FOLDERS_MAX, "a folder for each");

/* ---- where they are ---- */

static bool is_v2(void)
{
	struct statfs st;

	return statfs(MOUNT_POINT, &st) == 0 && st.f_type == CGROUP2_SUPER_MAGIC;
}

/* These files say no length. What does not fit is cut off. */
static int read_text(const char *dir, const char *name, char ret[TEXT_BYTES])
{
	_cleanup_free_ char *path = fs_join(dir, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, TEXT_BYTES - 1);

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

static int write_text(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
}

/* Whether a word is in a list of that length. */
static bool has_word(const char *list, size_t len, char separator, const char *word)
{
	size_t word_len = strlen(word);

	for (const char *end = list + len, *p = list; p <= end;) {
		const char *next = memchr(p, separator, (size_t)(end - p));
		size_t n = (size_t)((next ? next : end) - p);

		if (n == word_len && memcmp(p, word, n) == 0)
			return true;
		p += n + 1;
	}
	return false;
}

int cgroup_parse(const char *text, const char *controller, char *ret, size_t size)
{
	for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		const char *names = memchr(line, ':', (size_t)(end - line));
		const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
		size_t len;

		if (!path || !has_word(names + 1, (size_t)(path - names - 1), ',', controller))
			continue;
		len = (size_t)(end - ++path);
		/* One above the root of our namespace is not to be reached by its path. */
		if (len == 0 || path[0] != '/' || has_word(path, len, '/', "..") || len >= size)
			return -EPROTO;
		memcpy(ret, path, len);
		ret[len] = '\0';
		return 0;
	}
	return -ENOENT;
}

/* The folders of a process's cgroups. */
static int locate(pid_t pid, bool v2, struct cgroup *ret)
{
	char proc[NAME_BYTES], text[TEXT_BYTES], path[TEXT_BYTES];
	int r;

	(void)snprintf(proc, sizeof(proc), "/proc/%d", (int)pid);
	r = read_text(proc, "cgroup", text);
	for (size_t i = 0; r == 0 && i < (v2 ? 1 : ARRAY_SIZE(controllers)); i++) {
		const char *controller = v2 ? "" : controllers[i].name;

		r = cgroup_parse(text, controller, path, sizeof(path));
		if (r == 0 &&
			asprintf(&ret->folders[i], MOUNT_POINT "%s%s%s", v2 ? "" : "/", controller,
				strcmp(path, "/") == 0 ? "" : path) < 0)
			abort();
	}
	return r;
}

/* Those in which machines' are made. */
static int locate_parents(bool v2, struct cgroup *ret)
{
	int r = locate(getpid(), v2, ret);
	char *leaf = r == 0 && v2 ? strrchr(ret->folders[0], '/') : NULL;

	if (leaf && strcmp(leaf, OWN_LEAF) == 0)
		*leaf = '\0';
	return r;
}

static bool shares_out(const char *folder)
{
	char text[TEXT_BYTES];

	if (read_text(folder, "cgroup.subtree_control", text) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (!has_word(text, strlen(text), ' ', controllers[i].name))
			return false;
	}
	return true;
}

static bool may_make(bool v2, const struct cgroup *parents)
{
	for (size_t i = 0; i < ARRAY_SIZE(parents->folders) && parents->folders[i]; i++) {
		if (access(parents->folders[i], W_OK) < 0)
			return false;
	}
	return !v2 || shares_out(parents->folders[0]);
}

/* ---- before the first one ---- */

/* Moves out of the way, if nobody else is in it. */
static int move_out(const char *folder)
{
	_cleanup_free_ char *own = NULL;
	char text[TEXT_BYTES], self[NAME_BYTES];
	int r = read_text(folder, "cgroup.procs", text);

	(void)snprintf(self, sizeof(self), "%d\n", (int)getpid());
	if (r < 0 || strcmp(text, self) != 0)
		return -EBUSY;
	if (asprintf(&own, "%s" OWN_LEAF, folder) < 0)
		abort();
	if (mkdir(own, 0755) < 0 && errno != EEXIST)
		return -errno;
	return write_text(own, "cgroup.procs", "0");
}

static int share_out(const char *folder)
{
	static const char words[] = "+memory +pids +cpu";
	int r = write_text(folder, "cgroup.subtree_control", words);

	if (r != -EBUSY)
		return r;
	r = move_out(folder);
	return r == 0 ? write_text(folder, "cgroup.subtree_control", words) : r;
}

bool cgroup_prepare(char *why, size_t size)
{
	CLEANUP(cgroup_done) struct cgroup parents = {0};
	bool v2 = is_v2();
	int r = locate_parents(v2, &parents);

	if (r == 0 && v2 && !shares_out(parents.folders[0]))
		r = share_out(parents.folders[0]);
	if (r == 0 && may_make(v2, &parents))
		return true;
	if (r == -EBUSY)
		(void)snprintf(why, size,
			"other processes are in the daemon's (systemd: Delegate=yes)");
	else if (r == -ENOENT || r == -EPROTO)
		(void)snprintf(why, size, "memory, pids and cpu are not all there");
	else
		(void)snprintf(why, size, "%s: %s (systemd: Delegate=yes)",
			parents.folders[0] ? parents.folders[0] : "/proc/self/cgroup",
			strerror(r < 0 ? -r : EACCES));
	return false;
}

/* ---- one of them ---- */

static void format_name(char dst[NAME_BYTES], const struct stat *dir)
{
	(void)snprintf(dst, NAME_BYTES, PREFIX "%llx-%llx", (unsigned long long)dir->st_dev,
		(unsigned long long)dir->st_ino);
}

static void add_name(struct cgroup *c, const struct cgroup *parents, const struct stat *dir)
{
	char name[NAME_BYTES];

	format_name(name, dir);
	for (size_t i = 0; i < ARRAY_SIZE(c->folders) && parents->folders[i]; i++)
		c->folders[i] = fs_join(parents->folders[i], name);
}

static int set_limits(const struct cgroup *c, bool v2, uint64_t memory_bytes, unsigned int cpus)
{
	const uint64_t values[] = {
		memory_bytes + memory_bytes / MEMORY_ROOM_PART + MIB(MEMORY_ROOM_MIB),
		PIDS_ROOM + cpus,
		(uint64_t)cpus * PERIOD_US,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(controllers); i++) {
		char text[NAME_BYTES];

		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)values[i]);
		r = write_text(c->folders[v2 ? 0 : i], controllers[i].limit[v2], text);
		if (r == -EINVAL && !v2) /* more CPUs than the daemon has, whose limit counts */
			r = 0;
	}
	return r;
}

int cgroup_make(const char *dir, uint64_t memory_bytes, unsigned int cpus, struct cgroup *ret,
	struct err *err)
{
	CLEANUP(cgroup_done) struct cgroup parents = {0};
	bool v2 = is_v2();
	struct stat st;
	int r = 0;

	if (locate_parents(v2, &parents) < 0 || !may_make(v2, &parents))
		return 0;
	if (stat(dir, &st) < 0)
		return err_set_errno(err, -errno, "can't open %s", dir);
	add_name(ret, &parents, &st);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ret->folders) && ret->folders[i]; i++)
		r = mkdir(ret->folders[i], 0755) < 0 && errno != EEXIST ? -errno : 0;
	if (r == 0)
		r = set_limits(ret, v2, memory_bytes, cpus);
	if (r == 0)
		return 0;
	(void)err_set_errno(err, r, "can't make the machine's cgroup %s", ret->folders[0]);
	cgroup_end(ret);
	return r;
}

void cgroup_of_process(pid_t pid, const char *dir, struct cgroup *ret)
{
	char name[NAME_BYTES];
	struct stat st;

	if (stat(dir, &st) < 0 || locate(pid, is_v2(), ret) < 0) {
		cgroup_done(ret);
		return;
	}
	format_name(name, &st);
	/* All in it will be killed: it is the one that was made for that folder, or none. */
	for (size_t i = 0; i < ARRAY_SIZE(ret->folders) && ret->folders[i]; i++) {
		const char *slash = strrchr(ret->folders[i], '/');

		if (strcmp(slash + 1, name) != 0)
			cgroup_done(ret);
	}
}

void cgroup_of_folder(const char *dir, struct cgroup *ret)
{
	CLEANUP(cgroup_done) struct cgroup parents = {0};
	struct stat st;

	if (stat(dir, &st) < 0 || locate_parents(is_v2(), &parents) < 0)
		return;
	add_name(ret, &parents, &st);
	if (access(ret->folders[0], F_OK) < 0)
		cgroup_done(ret);
}

/* Kills a process that is still in it once its number can't become another's. */
static void kill_one(pid_t pid, const char *folder)
{
	_cleanup_close_ int pidfd = pidfd_open(pid, 0);
	CLEANUP(cgroup_done) struct cgroup now = {0};

	if (pidfd < 0)
		return;
	if (locate(pid, is_v2(), &now) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(now.folders) && now.folders[i]; i++) {
		if (strcmp(now.folders[i], folder) != 0)
			continue;
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0); /* fails when it has ended */
		(void)spawn_ended(pidfd,
			END_TIMEOUT_MS); /* KVM's own threads end with the last of the others */
	}
}

static void kill_all(const char *folder)
{
	char text[TEXT_BYTES], *save = NULL;

	if (read_text(folder, "cgroup.procs", text) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t pid;

		if (parse_u64(line, 2, INT32_MAX, &pid) == 0)
			kill_one((pid_t)pid, folder);
	}
}

void cgroup_end(struct cgroup *c)
{
	/* From here on nothing in it makes another process. Only one of them has that file. */
	for (size_t i = 0; i < ARRAY_SIZE(c->folders) && c->folders[i]; i++)
		(void)write_text(c->folders[i], "pids.max", "0");
	for (size_t i = 0; i < ARRAY_SIZE(c->folders) && c->folders[i]; i++) {
		kill_all(c->folders[i]);
		(void)rmdir(c->folders[i]); /* what is left costs nothing, and is empty */
	}
	cgroup_done(c);
}

void cgroup_done(struct cgroup *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->folders); i++) {
		free(c->folders[i]);
		c->folders[i] = NULL;
	}
}
