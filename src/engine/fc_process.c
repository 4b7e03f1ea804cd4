/* SPDX-License-Identifier: Apache-2.0 */
/* Firecracker's process: its folder, its fifos, and the jail that it is started in. */
#include "engine/fc_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/spawn.h"
#include "base/str.h"
#include "engine/firecracker_probe.h"
#include "engine/vm_folder.h"

enum { ARGS_MAX = 32 };

/* Descriptors of it. */
enum {
	FD_STDIN,
	FD_STDOUT,
	FD_STDERR,
	_FD_MAX,
};

/* What a machine that was hibernated has left goes, and the link to the base is made. */
static int prepare_folder(const struct vm_spec *spec, int dir_fd, struct err *err)
{
	static const char *const left[] = {"console", "base.ext4", "devices"};
	_cleanup_free_ char *base = fs_join(spec->image->dir, "rootfs.ext4");
	_cleanup_free_ char *run = fs_join(spec->dir, "run");
	int r = fs_remove_tree(run, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		(void)unlinkat(dir_fd, left[i], 0); /* as a rule there is none */
	if (symlinkat(base, dir_fd, "base.ext4") < 0 || mkfifoat(dir_fd, "console", 0600) < 0 ||
		mkdirat(dir_fd, "run", 0700) < 0 || mkfifoat(dir_fd, "run/log", 0600) < 0 ||
		/* The folder becomes the machine's, and only there it is anybody's. */
		fchmodat(dir_fd, "run/log", 0666, 0) < 0)
		return err_set_errno(err, -errno, "can't prepare %s", spec->dir);
	return 0;
}

/* Ours is opened first: a fifo without a reader can't be opened for writing. */
int fc_process_open_console(struct vm *vm, int dir_fd, struct err *err)
{
	vm->console_fd = openat(dir_fd, "console", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return vm->console_fd < 0 ? err_set_errno(err, -errno, "can't open its console") : 0;
}

static int open_fds(struct vm *vm, int dir_fd, int fds[_FD_MAX], int *ret_log_fd, struct err *err)
{
	int r = fc_process_open_console(vm, dir_fd, err);

	if (r < 0)
		return r;
	fds[FD_STDOUT] = openat(dir_fd, "console", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	*ret_log_fd = openat(dir_fd, "run/log", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	fds[FD_STDERR] = openat(dir_fd, "run/log", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return fds[FD_STDOUT] < 0 || fds[FD_STDERR] < 0
		? err_set_errno(err, -errno, "can't open a fifo")
		: 0;
}

char *fc_process_memory(const struct vm_spec *spec, bool *ret_own)
{
	_cleanup_free_ char *own = spec->state_dir ? fs_join(spec->state_dir, "memory") : NULL;

	*ret_own = own && access(own, F_OK) == 0;
	return *ret_own ? steal_ptr(&own) : fs_join(spec->image->dir, "memory");
}

/* The jail's arguments, and Firecracker's behind them. */
static int spawn_jailed(struct vm *vm, const struct vm_spec *spec, const int fds[_FD_MAX],
	struct err *err)
{
	bool has_own;
	_cleanup_free_ char *jail = firecracker_jail(), *memory = fc_process_memory(spec, &has_own);
	_cleanup_free_ char *base = fs_join(spec->image->dir, "rootfs.ext4");
	const char *argv[ARGS_MAX] = {jail, "--write", "scratch.ext4", "--write", "run", "--read",
		base};
	/* The names are the same in each folder: nothing of one machine's shows in another's state. */
	const char *const firecracker[] = {firecracker_program(), "--api-sock", "run/api.sock",
		"--id", "pandastack", "--log-path", "run/log", "--level", "Info"};
	const struct spawn sp = {.argv = argv,
		.cwd = spec->dir,
		.fds = {fds[FD_STDIN], fds[FD_STDOUT], fds[FD_STDERR]},
		.n_fds = _FD_MAX,
		.new_session = true};
	size_t n = 7;

	if (spec->image->card)
		argv[n++] = "--card";
	for (size_t i = 0; i < ARRAY_SIZE(vm->cgroup.folders) && vm->cgroup.folders[i]; i++) {
		argv[n++] = "--join";
		argv[n++] = vm->cgroup.folders[i];
	}
	/* A bake writes to its template's folder, which is ours, and its guest is trusted. */
	argv[n++] = spec->cold ? "--write" : "--own-ids";
	argv[n++] = spec->cold ? spec->image->dir : "--read";
	if (!spec->cold)
		argv[n++] = memory;
	memcpy(argv + n, firecracker, sizeof(firecracker));
	return spawn_start(&sp, &vm->pid, &vm->pidfd, err);
}

int fc_process_start(struct vm *vm, const struct vm_spec *spec, int dir_fd, int *ret_log_fd,
	struct err *err)
{
	int fds[_FD_MAX] = {-1, -1, -1};
	int r = prepare_folder(spec, dir_fd, err);

	if (r == 0)
		r = open_fds(vm, dir_fd, fds, ret_log_fd, err);
	if (r == 0)
		r = cgroup_make(spec->dir, spec->image->memory_bytes, spec->image->cpus,
			&vm->cgroup, err);
	if (r == 0)
		r = spawn_jailed(vm, spec, fds, err);
	cleanup_close(&fds[FD_STDOUT]);
	cleanup_close(&fds[FD_STDERR]);
	if (r < 0) {
		cgroup_end(&vm->cgroup);
		return r;
	}
	vm->is_child = true;
	return vm_folder_note(vm, err);
}
