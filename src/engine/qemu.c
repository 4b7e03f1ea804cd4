/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The qemu engine: microVMs by QEMU's `microvm` machine, with KVM or in software.
 *
 * Theory of operation
 * -------------------
 * Memory is one file, mapped by QEMU: shared for the cold boot of a bake, so that the file is the
 * memory once the machine is stopped; private for every sandbox, so that all of them share the pages
 * of the file and pay for what they write. The device state is a second, small file, loaded with
 * -incoming; the machine runs as soon as that is done. QEMU reads it from a socket: so a process can be started before it is
 * known what it shall be, and pages that differ from the memory file are put into it before the vCPUs run.
 *
 * Sockets (guest link, console, QMP) are made and listened on by us, in the vm's folder, and passed to
 * QEMU as descriptors. So they can be connected before QEMU has started, nobody waits for a path to
 * appear, and a later daemon connects to the same names.
 *
 * The network card is a socket of datagrams, `network.sock`, from which QEMU sends to `card.sock`, by name and whoever has that
 * now: so a helper may end and be followed by another. (A stream, in QEMU 7.2, has no connection yet when an
 * early guest sends its first frame, and falls over that.)
 *
 * The device set is fixed by the bake: a restored machine must have the same, in the same order. Change
 * it only together with TEMPLATE_FORMAT.
 *
 * QEMU is the wall between the guest and this machine, and may be taken over by its guest: it runs with
 * its seccomp filter on (no new programs, no other ids), without network, without default devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/spawn.h"
#include "engine/engine.h"
#include "engine/kernel_words.h"
#include "engine/memory_delta.h"
#include "engine/qemu_probe.h"
#include "engine/qmp.h"
#include "engine/unix_socket.h"
#include "engine/vm_folder.h"
#include "engine/why_dead.h"
#include "proto/guest_net.h"

enum {
	QMP_TIMEOUT_MS = 30000,
	DEVICES_MAX = 16 << 20, /* a device state takes 0.2 MB */
	SOCKET_BYTES = 1 << 20, /* or what Linux allows anybody */
	LOG_BYTES = 16 << 10,   /* of what QEMU printed, looked at for the reason of its end */
	/* Translated code that one VM may keep; QEMU's own default is a quarter of all memory. */
	TCG_CACHE_MIB = 128,
	ARGS_MAX = 64,
};

/* Descriptors of the QEMU process. */
enum {
	FD_STDIN,
	FD_STDOUT,
	FD_STDERR,
	FD_LINK,
	FD_CONSOLE,
	FD_QMP,
	FD_DEVICES,
	_FD_MAX,
};

#define KERNEL_COMMAND_LINE KERNEL_WORDS " reboot=t"

/* ---- start ---- */

struct qemu_vm {
	struct vm vm;
	/*
	 * Owned; what QEMU prints, -1 for an adopted one. A pipe, and no file: a guest can make QEMU complain as
	 * often as it likes. Nobody reads it before the end; once it is full, or we are gone, QEMU's words are
	 * lost (it does not wait, and ignores SIGPIPE).
	 */
	int log_fd;
	int devices_fd; /* owned; where it waits for its device state, else -1 */
	bool settled;   /* it is known to have set itself up */
};

/*
 * Named, for a snapshot moves between hosts only with a fixed model; less what QEMU can't translate,
 * about which it would warn. docs/engines.md has the figures of the choice.
 */
#define TCG_CPU_MODEL "Haswell,-x2apic,-tsc-deadline,-invpcid,-spec-ctrl,-pcid,-erms"

struct args {
	const char *argv[ARGS_MAX];
	unsigned int n;
	char *owned[16]; /* those that were formatted, to be freed */
	unsigned int n_owned;
};

static void args_done(struct args *a)
{
	for (unsigned int i = 0; i < a->n_owned; i++)
		free(a->owned[i]);
}

static void add(struct args *a, const char *arg)
{
	assert(a->n < ARGS_MAX - 1);
	a->argv[a->n++] = arg;
}

static void addf(struct args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void addf(struct args *a, const char *fmt, ...)
{
	char *arg;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&arg, fmt, ap) < 0)
		abort();
	va_end(ap);
	assert(a->n_owned < ARRAY_SIZE(a->owned));
	a->owned[a->n_owned++] = arg;
	add(a, arg);
}

/* A path as the value of an option: QEMU takes a comma for the end of it unless there are two. */
static char *option_path(const char *dir, const char *name)
{
	_cleanup_free_ char *path = fs_join(dir, name);
	char *escaped = xcalloc(2 * strlen(path) + 1, 1), *out = escaped;

	for (const char *p = path; *p; p++) {
		if (*p == ',')
			*out++ = ',';
		*out++ = *p;
	}
	return escaped;
}

static bool has_file(const char *dir, const char *name)
{
	_cleanup_free_ char *path = fs_join(dir, name);

	return access(path, F_OK) == 0;
}

static const char *state_dir(const struct vm_spec *spec)
{
	return spec->state_dir ? spec->state_dir : spec->image->dir;
}

/* Only a captured state that has all its memory in a file may be without: one that lost its delta is no machine. */
static bool has_delta(const struct vm_spec *spec)
{
	if (spec->state_dir && !has_file(spec->state_dir, "memory"))
		return true;
	return !spec->cold && has_file(state_dir(spec), "delta");
}

static char *memory_option(const struct vm_spec *spec)
{
	bool own = !spec->cold && has_file(state_dir(spec), "memory");

	return option_path(own ? state_dir(spec) : spec->image->dir, "memory");
}

static void add_machine(struct args *a, const struct vm_spec *spec)
{
	const struct machine_image *image = spec->image;
	_cleanup_free_ char *memory = memory_option(spec);

	add(a, QEMU_PROGRAM);
	add(a, "-nodefaults");
	add(a, "-no-user-config");
	add(a, "-nographic");
	add(a, "-no-reboot");
	add(a, "-sandbox");
	add(a, "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	add(a, "-machine");
	add(a, "microvm,memory-backend=ram,x-option-roms=off,auto-kernel-cmdline=off,rtc=off,pit=off,pic=off");
	add(a, "-accel");
	if (image->accel == ACCEL_KVM)
		add(a, "kvm");
	else
		addf(a, "tcg,tb-size=%d", TCG_CACHE_MIB);
	add(a, "-cpu");
	add(a, image->cpu_model);
	add(a, "-smp");
	addf(a, "%u", image->cpus);
	add(a, "-m");
	addf(a, "%lluM", (unsigned long long)(image->memory_bytes >> 20));
	add(a, "-object");
	addf(a, "memory-backend-file,id=ram,size=%llu,mem-path=%s,share=%s",
		(unsigned long long)image->memory_bytes, memory, spec->cold ? "on" : "off");
}

static void add_devices(struct args *a, const struct vm_spec *spec)
{
	_cleanup_free_ char *base = option_path(spec->image->dir, "rootfs.ext4");

	add(a, "-global");
	add(a, "virtio-mmio.force-legacy=false");
	add(a, "-drive");
	addf(a, "if=none,id=base,file=%s,format=raw,readonly=on,file.locking=off", base);
	add(a, "-device");
	add(a, "virtio-blk-device,drive=base,serial=base");
	add(a, "-drive");
	add(a, "if=none,id=scratch,file=scratch.ext4,format=raw,discard=unmap,file.locking=off");
	add(a, "-device");
	/* Without werror a full disk of ours would stop the machine, and nobody lets it go on. */
	add(a, "virtio-blk-device,drive=scratch,serial=scratch,werror=report,rerror=report");
	add(a, "-device");
	add(a, "virtio-rng-device");
	add(a, "-device");
	add(a, "virtio-serial-device,max_ports=2");
	add(a, "-netdev");
	add(a, "dgram,id=network,local.type=unix,local.path=network.sock,remote.type=unix,remote.path=card.sock");
	add(a, "-device");
	/* There is no switch that must learn where a restored machine is now. */
	addf(a, "virtio-net-device,netdev=network,mac=%s,host_mtu=%d,guest_announce=off",
		GUEST_NET_MAC_TEXT, GUEST_NET_MTU);
	add(a, "-chardev");
	addf(a, "socket,id=link,fd=%d,server=on,wait=off", FD_LINK);
	add(a, "-device");
	add(a, "virtserialport,chardev=link,name=pandastack.link");
	add(a, "-chardev");
	addf(a, "socket,id=console,fd=%d,server=on,wait=off", FD_CONSOLE);
	add(a, "-serial");
	add(a, "chardev:console");
	add(a, "-chardev");
	addf(a, "socket,id=qmp,fd=%d,server=on,wait=off", FD_QMP);
	add(a, "-mon");
	add(a, "chardev=qmp,mode=control");
}

static void add_start(struct args *a, const struct vm_spec *spec)
{
	if (spec->cold) {
		add(a, "-kernel");
		addf(a, "%s/kernel", spec->image->dir);
		add(a, "-initrd");
		addf(a, "%s/initrd", spec->image->dir);
		add(a, "-append");
		/* Calibration against an emulated timer takes long, and now and then for ever. */
		if (spec->image->accel == ACCEL_TCG)
			addf(a, KERNEL_COMMAND_LINE " tsc_early_khz=%llu lpj=4000000",
				(unsigned long long)spec->image->tsc_khz);
		else
			add(a, KERNEL_COMMAND_LINE);
	} else {
		/* The device state was saved by xen-save-devices-state, which writes no
		 * configuration section. */
		add(a, "-global");
		add(a, "migration.send-configuration=off");
		add(a, "-incoming");
		addf(a, "fd:%d", FD_DEVICES);
	}
}

static struct vm *new_vm(const char *dir, enum accel accel)
{
	struct qemu_vm *q = xnew(struct qemu_vm);
	struct vm *vm = &q->vm;

	q->log_fd = q->devices_fd = -1;
	vm_init(vm, &qemu_ops, dir, accel);
	return vm;
}

static int connect_vm(struct vm *vm, int dir_fd, struct err *err)
{
	vm->link_fd = unix_connect(dir_fd, "link.sock", SOCK_STREAM);
	vm->console_fd = unix_connect(dir_fd, "console.sock", SOCK_STREAM | SOCK_NONBLOCK);
	if (vm->link_fd < 0 || vm->console_fd < 0)
		return err_set(err, ERR_ENGINE, vm->link_fd < 0 ? vm->link_fd : vm->console_fd,
			"can't reach QEMU's sockets");
	return 0;
}

/* A machine that was hibernated has left its own. */
static int listen_anew(int dir_fd, const char *name)
{
	(void)unlinkat(dir_fd, name, 0); /* as a rule there is none */
	return unix_listen(dir_fd, name, SOCK_STREAM);
}

static int open_fds(const struct vm_spec *spec, int dir_fd, int fds[_FD_MAX], int *ret_log_fd,
	struct err *err)
{
	int log_fds[2];

	if (pipe2(log_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set_errno(err, -errno, "can't make a pipe");
	*ret_log_fd = log_fds[0];
	fds[FD_STDOUT] = fds[FD_STDERR] = log_fds[1];
	fds[FD_LINK] = listen_anew(dir_fd, "link.sock");
	fds[FD_CONSOLE] = listen_anew(dir_fd, "console.sock");
	fds[FD_QMP] = listen_anew(dir_fd, "qmp.sock");
	for (int i = FD_LINK; i <= FD_QMP; i++) {
		if (fds[i] < 0)
			return err_set_errno(err, fds[i], "can't make a socket in %s", spec->dir);
	}
	return 0;
}

/*
 * What QEMU reads the device state from, for it is known only later which one: a socket, at whose end it ends. (The end of
 * a pipe that it waits for it does not see, and spins.)
 */
static int open_devices(const struct vm_spec *spec, int *ret_source, int *ret_fd, struct err *err)
{
	static const int bytes = SOCKET_BYTES;
	int fds[2];

	if (spec->cold)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set_errno(err, -errno, "can't make a socket");
	/* Where it takes all of a device state, load() has nothing to wait for; else QEMU reads as we write. */
	(void)setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	*ret_source = fds[0];
	*ret_fd = fds[1];
	return 0;
}

static int qemu_start(const struct vm_spec *spec, struct vm **ret, struct err *err)
{
	CLEANUP(args_done) struct args args = {0};
	_cleanup_close_ int dir_fd = open(spec->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct spawn sp = {.argv = args.argv,
		.cwd = spec->dir,
		.n_fds = _FD_MAX,
		.new_session = true};
	struct qemu_vm *q;
	struct vm *vm;
	int r;

	if (dir_fd < 0)
		return err_set_errno(err, -errno, "can't open %s", spec->dir);
	for (int i = 0; i < _FD_MAX; i++)
		sp.fds[i] = -1;
	vm = new_vm(spec->dir, spec->image->accel);
	q = (struct qemu_vm *)vm;
	add_machine(&args, spec);
	add_devices(&args, spec);
	add_start(&args, spec);
	r = open_fds(spec, dir_fd, sp.fds, &q->log_fd, err);
	if (r == 0)
		r = open_devices(spec, &sp.fds[FD_DEVICES], &q->devices_fd, err);
	if (r == 0)
		r = connect_vm(vm, dir_fd, err);
	if (r == 0) {
		r = spawn_start(&sp, &vm->pid, &vm->pidfd, err);
		vm->is_child = r == 0;
	}
	if (vm->is_child) {
		r = vm_folder_note(vm, err);
		if (r < 0)
			vm_kill(vm);
	}
	for (int i = FD_STDERR; i < _FD_MAX; i++)
		cleanup_close(&sp.fds[i]); /* FD_STDOUT is the same as FD_STDERR */
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	*ret = vm;
	return 0;
}

static int qemu_settle(struct vm *vm, struct err *err)
{
	struct qemu_vm *q = (struct qemu_vm *)vm;
	_cleanup_close_ int dir_fd = open(vm->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct qmp qmp;
	int r;

	if (q->settled)
		return 0;
	if (dir_fd < 0)
		return err_set_errno(err, -errno, "can't open %s", vm->dir);
	/* Its control socket speaks once all else is done. */
	r = qmp_open(&qmp, dir_fd, "qmp.sock", err);
	if (r < 0)
		return r;
	qmp_close(&qmp);
	q->settled = true;
	return 0;
}

/* Puts the written pages of the restored machine in place. QEMU has mapped the memory once it has settled. */
static int load_pages(struct vm *vm, const struct vm_spec *spec, struct err *err)
{
	_cleanup_free_ char *delta = fs_join(state_dir(spec), "delta");
	struct guest_memory memory;
	int r = qemu_settle(vm, err);

	if (r < 0)
		return r;
	r = guest_memory_find(vm->pid, spec->image->memory_bytes, &memory);
	if (r < 0)
		return err_set_errno(err, r, "can't find the machine's memory");
	return delta_load(delta, &memory, err);
}

/* Gives QEMU the device state, behind which the vCPUs run. Should QEMU have ended, the write fails. */
static int feed_devices(const struct vm_spec *spec, int fd, struct err *err)
{
	_cleanup_free_ char *path = fs_join(state_dir(spec), "devices"), *data = NULL;
	size_t len, at = 0;
	int r = fs_read(path, DEVICES_MAX, &data, &len, err);

	while (r == 0 && at < len) {
		ssize_t n = write(fd, data + at, len - at);

		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_ENGINE, -EPIPE,
				"QEMU does not take the device state: %s", strerror(errno));
		at += n < 0 ? 0 : (size_t)n;
	}
	return r;
}

static int qemu_load(struct vm *vm, const struct vm_spec *spec, struct err *err)
{
	struct qemu_vm *q = (struct qemu_vm *)vm;
	int r = has_delta(spec) ? load_pages(vm, spec, err) : 0;

	if (r == 0)
		r = feed_devices(spec, q->devices_fd, err);
	cleanup_close(&q->devices_fd);
	q->devices_fd = -1;
	return r;
}

/* ---- the rest of the interface ---- */

static int qemu_adopt(const char *dir, struct vm **ret, struct err *err)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct vm *vm;
	int r;

	if (dir_fd < 0)
		return err_set_errno(err, -errno, "can't open %s", dir);
	vm = new_vm(dir, ACCEL_TCG);
	r = vm_folder_find(vm, err);
	if (r == 0)
		r = connect_vm(vm, dir_fd, err);
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	*ret = vm;
	return 0;
}

/* One command of QMP; the reference is taken. */
static int command(struct vm *vm, const char *name, json_t *args, struct err *err)
{
	_cleanup_close_ int dir_fd = open(vm->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct qmp qmp;
	int r;

	if (dir_fd < 0)
		r = err_set_errno(err, -errno, "can't open %s", vm->dir);
	else
		r = qmp_open(&qmp, dir_fd, "qmp.sock", err);
	if (r < 0) {
		json_decref(args);
		return r;
	}
	r = qmp_execute(&qmp, name, args, QMP_TIMEOUT_MS, NULL, err);
	qmp_close(&qmp);
	return r;
}

static int qemu_pause(struct vm *vm, struct err *err)
{
	return command(vm, "stop", NULL, err);
}

static int qemu_unpause(struct vm *vm, struct err *err)
{
	return command(vm, "cont", NULL, err);
}

/* QEMU says of any failure to write that an IO error has occurred. */
static bool disk_is_full(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int e = fd < 0 ? errno : posix_fallocate(fd, 0, MIB(1)); /* more than devices take */

	return e == ENOSPC || e == EDQUOT;
}

static int qemu_save_devices(struct vm *vm, const char *path, struct err *err)
{
	int r = command(vm, "xen-save-devices-state",
		json_pack("{s:s, s:b}", "filename", path, "live", 0), err);

	if (r == -EREMOTEIO && disk_is_full(path))
		r = err_set_errno(err, -ENOSPC, "can't write %s", path);
	return r;
}

static int qemu_save_memory(struct vm *vm, uint64_t memory_bytes, const char *base,
	const char *path, uint64_t *ret_bytes, struct err *err)
{
	struct guest_memory memory;
	int r = guest_memory_find(vm->pid, memory_bytes, &memory);

	if (r < 0)
		return err_set_errno(err, r, "can't find the machine's memory");
	return delta_save(&memory, base, path, ret_bytes, err);
}

static void qemu_why_dead(struct vm *vm, char *msg, size_t size)
{
	const int log_fd = ((const struct qemu_vm *)vm)->log_fd;
	char log[LOG_BYTES];
	ssize_t n = log_fd < 0 ? 0 : read(log_fd, log, sizeof(log));

	why_dead("QEMU", vm, log, n < 0 ? 0 : (size_t)n, msg, size);
}

static int qemu_open_network(struct vm *vm, int *ret_fd, struct err *err)
{
	_cleanup_close_ int dir_fd = open(vm->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dir_fd >= 0)
		(void)unlinkat(dir_fd, "card.sock", 0); /* of a helper that has ended */
	fd = dir_fd < 0 ? -errno : unix_pair_up(dir_fd, "card.sock", "network.sock");
	if (fd < 0)
		return err_set(err, ERR_ENGINE, fd, "can't reach the machine's network card: %s",
			strerror(-fd));
	*ret_fd = fd;
	return 0;
}

static void qemu_free(struct vm *vm)
{
	struct qemu_vm *q = (struct qemu_vm *)vm;

	cleanup_close(&q->log_fd);
	cleanup_close(&q->devices_fd);
	free(q);
}

const struct engine_ops qemu_ops = {
	.name = "qemu",
	.cpu_models = {[ACCEL_KVM] = "host", [ACCEL_TCG] = TCG_CPU_MODEL},
	.probe = qemu_probe,
	.start = qemu_start,
	.settle = qemu_settle,
	.load = qemu_load,
	.adopt = qemu_adopt,
	.kill_left = vm_folder_kill_left,
	.pause = qemu_pause,
	.unpause = qemu_unpause,
	.save_devices = qemu_save_devices,
	.save_memory = qemu_save_memory,
	.open_network = qemu_open_network,
	.why_dead = qemu_why_dead,
	.free = qemu_free,
};
