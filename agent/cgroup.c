/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups (cgroup2): the agent's reserve, and one group for each command and kernel. */
/*
 * Theory of operation
 *
 *	/            all controllers
 *	├── agent    the agent alone: 100 times the processor weight of the rest, memory.min
 *	└── work     memory.max = what is free after boot, but a reserve; see memory_guard.h
 *	    ├── cmd-1      a command and all that descends from it
 *	    ├── kernel-2   a Python kernel and its children
 *	    └── …
 *
 * Whatever user code does (a fork bomb, loops on all processors, taking all memory) it does
 * within `work`, and the agent goes on answering. The limit on processes is each group's own, so
 * that a fork bomb in one group leaves room for the next command. User code is root in the guest
 * and can take all this apart; it then hurts nobody but itself.
 *
 * A group whose command has ended may still hold services that the command started. It is kept
 * in `leftovers` and removed by cgroup_sweep(), which runs whenever an orphan was reaped: a group
 * cannot become empty in another way.
 *
 * Kernel documentation: Documentation/admin-guide/cgroup-v2.rst.
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/parse.h"
#include "file_io.h"

enum {
	RESERVE_BYTES = 96 << 20, /* of what is free after boot: never for `work` */
	AGENT_MIN_BYTES = 16 << 20,
	KILL_PASSES = 8, /* a tree that forks while it is being killed */
	PROCS_BYTES = 256 * 1024,
	SMALL_BYTES = 8 * 1024,
};

/* The number behind "key " at the beginning of a line; 0 where there is none. */
static uint64_t flat_value(const char *text, const char *key)
{
	size_t len = strlen(key);
	uint64_t value;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		char number[24];

		line += *line == '\n';
		if (strncmp(line, key, len) != 0 || line[len] != ' ')
			continue;
		(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(line + len + 1, "\n"),
			line + len + 1);
		return parse_u64(number, 0, UINT64_MAX, &value) < 0 ? 0 : value;
	}
	return 0;
}

static uint64_t read_number(int dir_fd, const char *path)
{
	_cleanup_buf_ struct buf text = buf_init(SMALL_BYTES);
	uint64_t value;

	if (file_read_small(dir_fd, path, &text) < 0 || !text.len)
		return 0;
	text.data[strcspn(text.data, "\n")] = '\0';
	return parse_u64(text.data, 0, UINT64_MAX, &value) < 0 ? 0 : value;
}

uint64_t cgroup_value(int dir_fd, const char *file, const char *key)
{
	_cleanup_buf_ struct buf text = buf_init(SMALL_BYTES);

	return file_read_small(dir_fd, file, &text) < 0 ? 0 : flat_value(text.data, key);
}

uint64_t cgroup_limit(int dir_fd)
{
	return read_number(dir_fd, "memory.max");
}

static int open_dir(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int make_dir(int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return open_dir(dir_fd, name);
}

int cgroup_divide_machine(const char *mount_path)
{
	_cleanup_close_ int root = open_dir(AT_FDCWD, mount_path);
	_cleanup_close_ int agent = -1, work = -1;
	uint64_t available = meminfo_bytes("MemAvailable");
	int r;

	if (root < 0)
		return root;
	agent = make_dir(root, "agent");
	work = make_dir(root, "work");
	if (agent < 0 || work < 0)
		return MIN(agent, work);
	r = file_write_small(agent, "cgroup.procs", "0");
	if (r < 0)
		return r;
	r = file_write_small(root, "cgroup.subtree_control", "+cpu +memory +pids");
	if (r < 0)
		return r;
	r = file_write_small(work, "cgroup.subtree_control", "+cpu +memory +pids");
	if (r < 0)
		return r;
	/* The limit must be hit before the machine's own: in a machine without free memory even the
	 * agent waits, for its next page fault or system call. */
	available -= MIN((uint64_t)RESERVE_BYTES, available / 4);
	r = file_write_number(work, "memory.max", available);
	if (r < 0)
		return r;
	r = file_write_number(agent, "memory.min", AGENT_MIN_BYTES);
	if (r < 0)
		return r;
	return file_write_number(agent, "cpu.weight", 10000);
}

int cgroup_tree_init(struct cgroup_tree *tree, const char *path)
{
	*tree = (struct cgroup_tree){.dir_fd = -1, .next_id = 1};
	list_init(&tree->leftovers);
	if (!path)
		return 0;
	tree->dir_fd = open_dir(AT_FDCWD, path);
	tree->pids_max = read_number(AT_FDCWD, "/proc/sys/kernel/threads-max") / 2;
	return MIN(tree->dir_fd, 0);
}

static void cgroup_free(struct cgroup *cg)
{
	list_remove(&cg->node);
	cleanup_close(&cg->dir_fd);
	free(cg);
}

void cgroup_tree_done(struct cgroup_tree *tree)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &tree->leftovers) {
		struct cgroup *cg = container_of(it, struct cgroup, node);

		cgroup_kill(cg);
		cgroup_free(cg);
	}
	cleanup_close(&tree->dir_fd);
	tree->dir_fd = -1;
}

void cgroup_sweep(struct cgroup_tree *tree)
{
	struct list *it, *tmp;

	list_for_each(it, tmp, &tree->leftovers) {
		struct cgroup *cg = container_of(it, struct cgroup, node);

		if (unlinkat(tree->dir_fd, cg->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			cgroup_free(cg);
	}
}

struct cgroup *cgroup_new(struct cgroup_tree *tree, const char *kind)
{
	struct cgroup *cg = xnew(struct cgroup);
	int fd;

	cg->tree = tree;
	cg->dir_fd = -1;
	list_init(&cg->node);
	if (tree->dir_fd < 0)
		return cg;
	(void)snprintf(cg->name, sizeof(cg->name), "%s-%llu", kind,
		(unsigned long long)tree->next_id++);
	fd = make_dir(tree->dir_fd, cg->name);
	if (fd < 0)
		return cg;
	cg->dir_fd = fd;
	if (tree->pids_max)
		(void)file_write_number(fd, "pids.max",
			tree->pids_max); /* no pids controller: no limit */
	return cg;
}

struct cgroup *cgroup_release(struct cgroup *cg)
{
	if (!cg)
		return NULL;
	if (cg->dir_fd >= 0) {
		list_append(&cg->tree->leftovers, &cg->node);
		cgroup_sweep(cg->tree);
	} else {
		cgroup_free(cg);
	}
	return NULL;
}

int cgroup_attach(struct cgroup *cg, pid_t pid)
{
	cg->leader = pid;
	return cg->dir_fd < 0 ? 0 : file_write_number(cg->dir_fd, "cgroup.procs", (uint64_t)pid);
}

void cgroup_kill(struct cgroup *cg)
{
	if (cg->dir_fd >= 0)
		(void)file_write_small(cg->dir_fd, "cgroup.kill",
			"1"); /* exists since Linux 5.14 */
	else if (cg->leader > 1 && kill(-cg->leader, SIGKILL) < 0)
		(void)kill(cg->leader, SIGKILL); /* a kernel need not lead a process group */
}

uint64_t cgroup_now_ticks(void)
{
	struct timespec ts;
	long hz = sysconf(_SC_CLK_TCK);

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * (uint64_t)hz +
		(uint64_t)ts.tv_nsec * (uint64_t)hz / 1000000000;
}

/* Field 22 of /proc/PID/stat; the second, the command's name, may hold anything, ")" too. */
static uint64_t start_ticks(pid_t pid)
{
	_cleanup_buf_ struct buf stat = buf_init(SMALL_BYTES);
	char path[32], number[24];
	uint64_t ticks;
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read_small(AT_FDCWD, path, &stat) < 0)
		return 0;
	p = strrchr(stat.data, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return 0;
	(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(p + 1, " "), p + 1);
	return parse_u64(number, 0, UINT64_MAX, &ticks) < 0 ? 0 : ticks;
}

/* One pass; true when something was killed. */
static bool kill_listed(struct cgroup *cg, pid_t spare, uint64_t since_ticks)
{
	_cleanup_buf_ struct buf procs = buf_init(PROCS_BYTES);
	bool killed = false;
	char *save = NULL;

	if (file_read_small(cg->dir_fd, "cgroup.procs", &procs) < 0)
		return false;
	for (char *p = strtok_r(procs.data, "\n", &save); p; p = strtok_r(NULL, "\n", &save)) {
		int64_t pid;

		if (parse_i64(p, 2, INT32_MAX, &pid) < 0 || pid == spare)
			continue;
		if (start_ticks((pid_t)pid) < since_ticks)
			continue;
		killed |= kill((pid_t)pid, SIGKILL) == 0;
	}
	return killed;
}

void cgroup_kill_others(struct cgroup *cg, pid_t spare, uint64_t since_ticks)
{
	for (int i = 0; cg->dir_fd >= 0 && i < KILL_PASSES; i++) {
		if (!kill_listed(cg, spare, since_ticks))
			break;
	}
}

bool cgroup_populated(const struct cgroup *cg)
{
	return cg->dir_fd >= 0 && cgroup_value(cg->dir_fd, "cgroup.events", "populated") == 1;
}

uint64_t cgroup_oom_kills(const struct cgroup *cg)
{
	return cg->dir_fd < 0 ? 0 : cgroup_value(cg->dir_fd, "memory.events", "oom_kill");
}
