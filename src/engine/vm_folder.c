/* SPDX-License-Identifier: Apache-2.0 */
/* vm.json, and the process that it names. */
#include "engine/vm_folder.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/parse.h"
#include "base/spawn.h"
#include "engine/process_stat.h"

enum { VM_JSON_MAX = 4096 };

void vm_init(struct vm *vm, const struct engine_ops *ops, const char *dir, enum accel accel)
{
	vm->ops = ops;
	vm->dir = xstrdup(dir);
	vm->accel = accel;
	vm->pidfd = vm->link_fd = vm->console_fd = vm->status = -1;
}

int vm_folder_note(const struct vm *vm, struct err *err)
{
	_cleanup_free_ char *path = fs_join(vm->dir, "vm.json");
	_cleanup_free_ char *text = NULL;
	struct process_stat stat;
	int r = process_stat_read(vm->pid, &stat);

	if (r < 0)
		return err_set_errno(err, r, "its process ended at once");
	if (asprintf(&text, "{\"engine\":\"%s\",\"accel\":\"%s\",\"pid\":%d,\"started\":%llu}\n",
		    vm->ops->name, accel_name(vm->accel), (int)vm->pid,
		    (unsigned long long)stat.started_ticks) < 0)
		abort();
	return fs_write_atomic(path, text, strlen(text), 0600, err);
}

static int read_vm_json(struct vm *vm, uint64_t *ret_started, struct err *err)
{
	_cleanup_free_ char *path = fs_join(vm->dir, "vm.json"), *text = NULL;
	const char *engine, *accel;
	json_t *json;
	json_int_t pid = 0, started = 0;
	size_t len;
	int r = fs_read(path, VM_JSON_MAX, &text, &len, err);

	if (r < 0)
		return r;
	json = json_loadb(text, len, 0, NULL);
	r = json_unpack(json, "{s:s, s:s, s:I, s:I}", "engine", &engine, "accel", &accel, "pid",
		&pid, "started", &started);
	if (r == 0 && strcmp(engine, vm->ops->name) != 0)
		r = err_set(err, ERR_ENGINE, -EXDEV, "its machine is one of the engine %.32s",
			engine);
	else if (r == 0 && pid > 1 && pid <= INT32_MAX)
		r = accel_from_name(accel, &vm->accel);
	else
		r = -EPROTO;
	json_decref(json);
	if (r == -EXDEV)
		return r;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, r, "%s is damaged", path);
	vm->pid = (pid_t)pid;
	*ret_started = (uint64_t)started;
	return 0;
}

/* Whether that process is one of the folder: it works in it. Its pidfd is open, so the pid is its own. */
static bool works_in(pid_t pid, const struct stat *dir)
{
	char path[64];
	struct stat cwd;

	(void)snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	return stat(path, &cwd) == 0 && cwd.st_dev == dir->st_dev && cwd.st_ino == dir->st_ino;
}

int vm_folder_find(struct vm *vm, struct err *err)
{
	struct process_stat now;
	uint64_t started = 0;
	struct stat st;
	int r = stat(vm->dir, &st) < 0 ? err_set_errno(err, -errno, "can't open %s", vm->dir) : 0;

	if (r == 0)
		r = read_vm_json(vm, &started, err);
	if (r < 0)
		return r;
	vm->pidfd = pidfd_open(vm->pid, 0);
	/* The pid may be another process by now; once the pidfd is open it can't change any more. */
	if (vm->pidfd < 0 || process_stat_read(vm->pid, &now) < 0 || now.started_ticks != started ||
		!works_in(vm->pid, &st))
		return err_set(err, ERR_ENGINE, -ESRCH, "its process has ended");
	cgroup_of_process(vm->pid, vm->dir, &vm->cgroup);
	return 0;
}

/* By its folder alone: who started it may have died before vm.json was written. */
void vm_folder_kill_left(const char *dir)
{
	CLEANUP(cgroup_done) struct cgroup left = {0};
	DIR *proc = opendir("/proc");
	struct dirent *e;
	struct stat st;
	uint64_t pid;

	while (proc && stat(dir, &st) == 0 && (e = readdir(proc))) {
		CLEANUP(cgroup_done) struct cgroup own = {0};
		_cleanup_close_ int pidfd = -1;

		if (parse_u64(e->d_name, 2, INT32_MAX, &pid) < 0 || !works_in((pid_t)pid, &st))
			continue;
		pidfd = pidfd_open((pid_t)pid, 0);
		if (pidfd < 0 || !works_in((pid_t)pid, &st))
			continue;
		cgroup_of_process((pid_t)pid, dir, &own);
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0); /* fails when it has ended */
		(void)spawn_ended(pidfd, -1);
		cgroup_end(&own);
	}
	if (proc)
		(void)closedir(proc);
	cgroup_of_folder(dir, &left);
	cgroup_end(&left);
}
