/* SPDX-License-Identifier: Apache-2.0 */
/* What all engines share: the table of drivers, names, and the end of a vm. */
#include "engine/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>

#include "base/spawn.h"
#include "engine/process_stat.h"

static const char *const accel_names[] = {
	[ACCEL_KVM] = "kvm",
	[ACCEL_TCG] = "tcg",
};
static_assert(ARRAY_SIZE(accel_names) == _ACCEL_MAX, "every accelerator has a name");

const struct engine_ops *const engines[] = {&qemu_ops, &firecracker_ops, NULL};

int engine_pick(const char *name, const struct engine_ops **ret, struct engine_info *ret_info,
	struct err *err)
{
	bool any = strcmp(name, "auto") == 0;
	struct engine_info first = {0};

	for (const struct engine_ops *const *ops = engines; *ops; ops++) {
		if (!any && strcmp(name, (*ops)->name) != 0)
			continue;
		(*ops)->probe(ret_info);
		if (ret_info->available) {
			if ((*ops)->prepare)
				(*ops)->prepare(ret_info);
			*ret = *ops;
			return 0;
		}
		if (!first.name)
			first = *ret_info;
	}
	/* Where none works, what the first one lacks is what is easiest to come by. */
	if (first.name)
		return err_set(err, ERR_ENGINE, -ENOENT, "%s", first.why);
	return err_set(err, ERR_INVALID, -EINVAL,
		"unknown engine %s: use auto, or one of `pandastack engines`", name);
}

int engine_require(const struct engine_info *engine, const char *word, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(engine->lacks) && engine->lacks[i]; i++) {
		if (strcmp(engine->lacks[i], word) == 0)
			return err_set(err, ERR_UNSUPPORTED, -ENOSYS,
				"%s is not supported by the engine %s", word, engine->name);
	}
	return 0;
}

const char *accel_name(enum accel a)
{
	assert(a < _ACCEL_MAX);
	return accel_names[a];
}

int accel_from_name(const char *name, enum accel *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(accel_names); i++) {
		if (strcmp(accel_names[i], name) == 0) {
			*ret = (enum accel)i;
			return 0;
		}
	}
	return -EINVAL;
}

int vm_take_link(struct vm *vm)
{
	return steal_fd(&vm->link_fd);
}

/* Reads in a row: a socket's whole buffer, but no guest that writes as fast as it is read holds the thread. */
enum { CONSOLE_READS_MAX = 64 };

bool vm_drain_console(struct vm *vm)
{
	char data[VM_CONSOLE_BYTES];

	for (int i = 0; i < CONSOLE_READS_MAX; i++) {
		ssize_t n = read(vm->console_fd, data, sizeof(data));
		size_t len = (size_t)n, keep;

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		keep = MIN(vm->console_len, sizeof(vm->console) - len);
		memmove(vm->console, vm->console + vm->console_len - keep, keep);
		memcpy(vm->console + keep, data, len);
		vm->console_len = keep + len;
		if (vm->on_console)
			vm->on_console(vm->console_user, data, len);
	}
	return true;
}

int vm_get_usage(const struct vm *vm, struct vm_usage *ret)
{
	int64_t hz = sysconf(_SC_CLK_TCK);
	struct process_stat stat;
	struct timespec now;
	int r = process_stat_read(vm->pid, &stat);

	if (r < 0)
		return r;
	if (spawn_ended(vm->pidfd, 0)) /* the pid may be another's */
		return -ESRCH;
	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* it is always there */
	*ret = (struct vm_usage){
		.pid = vm->pid,
		.uptime_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 -
			(int64_t)stat.started_ticks * 1000 / hz,
		.cpu_ms = (int64_t)stat.cpu_ticks * 1000 / hz,
		.rss_bytes = stat.rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.vsz_bytes = stat.vsz_bytes,
		.threads = (unsigned int)stat.threads,
	};
	return 0;
}

int vm_move(struct vm *vm, const char *dir, struct err *err)
{
	/* The process works in the folder, whatever that is called. */
	if (rename(vm->dir, dir) < 0)
		return err_set_errno(err, -errno, "can't rename %s", vm->dir);
	free(vm->dir);
	vm->dir = xstrdup(dir);
	return 0;
}

void vm_reap(struct vm *vm)
{
	if (vm->is_child)
		vm->status = spawn_wait(vm->pidfd);
	vm->is_child = false;
}

void vm_kill(struct vm *vm)
{
	(void)pidfd_send_signal(vm->pidfd, SIGKILL, NULL, 0); /* fails when it has ended already */
	(void)spawn_ended(vm->pidfd, -1);
	vm_reap(vm);
	cgroup_end(&vm->cgroup);
}

struct vm *vm_free(struct vm *vm)
{
	if (!vm)
		return NULL;
	cleanup_close(&vm->pidfd);
	cleanup_close(&vm->link_fd);
	cleanup_close(&vm->console_fd);
	cgroup_done(&vm->cgroup);
	free(vm->dir);
	vm->ops->free(vm);
	return NULL;
}
