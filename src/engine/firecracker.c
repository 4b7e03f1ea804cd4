/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firecracker engine: microVMs by Firecracker, where there is KVM.
 *
 * Theory of operation
 * -------------------
 * A machine is one Firecracker process that works in the vm's folder. All that it opens there it knows by relative names (its disks,
 * `run/link.sock`), so that a restored clone finds its own; the shared base disk is a symbolic link there. It is driven over
 * its API, `run/api.sock`, one request after the other. That it listens there it says in its log, a fifo that we read.
 *
 * The bake lets Firecracker write its whole memory to a file. Every sandbox has Firecracker map that file privately,
 * and pages that differ are put into the process before the vCPUs run, as with qemu; they are found in the same way, too.
 * Firecracker can only save devices and memory together, the devices first. So for a sandbox it is given a memory file
 * that can't be written: it leaves the device state, says that the memory failed, and no page is written twice. (Its own
 * diff snapshots need KVM's log of dirty pages, which costs the guest a fault per page from the start; without it they
 * take every page of the base that is in the page cache.)
 *
 * The link is vsock (api/link.md). Connections do not outlive a stop of the machine: Firecracker resets the device when it
 * saves it, and versions up to 1.16 deliver nothing more to the guest when they go on without having saved it. So each machine that
 * goes on has saved its state, if only into nothing, and its link is made anew by relink().
 *
 * The console is a fifo, `console`. Firecracker writes to it without waiting; what nobody reads is lost.
 *
 * It is started by pandastack-jail (src/jail), as the program of a process that sees its folder, the files of its template that it
 * needs, and no network but its card's; it may write to its disk, and in `run`. Firecracker may be taken over by its guest: what is
 * found in `run` is input, links there are not followed, and the state of its devices is copied from there and to us.
 *
 * The network card is a TAP that the jail has made, and the process holds a packet socket on it for us (jail/card.h). Where the host
 * permits none, a template is baked without, and sandboxes run with egress `none`.
 *
 * Firecracker's own seccomp filters are on.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/fc_api.h"
#include "engine/fc_process.h"
#include "engine/firecracker_probe.h"
#include "engine/kernel_image.h"
#include "engine/kernel_words.h"
#include "engine/memory_delta.h"
#include "engine/unix_socket.h"
#include "engine/vm_folder.h"
#include "engine/why_dead.h"
#include "proto/guest_net.h"
#include "proto/guest_vsock.h"
#include "proto/jail_card.h"

enum {
	API_TIMEOUT_MS = 30000,
	START_TIMEOUT_MS = 20000, /* until it listens */
	BOOT_TIMEOUT_MS = 60000,  /* until the agent knocks */
	LINK_TIMEOUT_MS =
		30000, /* until the agent is connected to; on a busy host its guest is slow */
	CONNECT_TRY_MS =
		10000,      /* then once more: what was in the device when it was reset is lost */
	LOG_READS_MAX = 64, /* more than a fifo holds */
	LOG_BYTES = 4096,   /* of what it said last */
	MEMORY_MAX_MIB = 3 << 10, /* one region; above it a second one begins behind the devices */
	ANSWER_BYTES = 32,        /* "OK 1073741824\n" */
	DEVICES_MAX = 16 << 20,   /* a device state takes 0.1 MB */
};

/* i8042.*, pci=off: devices that it has not are not looked for. reboot=k: what it has to end by. */
#define KERNEL_COMMAND_LINE KERNEL_WORDS " reboot=k pci=off i8042.noaux i8042.nomux i8042.dumbkbd"

struct fc_vm {
	struct vm vm;
	int log_fd; /* owned; -1 for an adopted one */
	size_t log_len;
	char log[LOG_BYTES];
	bool listens;      /* its API is known to be there */
	char *memory_path; /* owned; where a cold one's memory is saved, else NULL */
};

static struct fc_vm *fc_of(struct vm *vm)
{
	return (struct fc_vm *)vm;
}

static int open_dir(const struct vm *vm, struct err *err)
{
	int fd = open(vm->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_set_errno(err, -errno, "can't open %s", vm->dir) : fd;
}

/* One request to its API; the reference is taken. */
static int call(struct vm *vm, const char *method, const char *path, json_t *body, struct err *err)
{
	_cleanup_close_ int dir_fd = open_dir(vm, err);

	if (dir_fd < 0) {
		json_decref(body);
		return dir_fd;
	}
	return fc_api_call(dir_fd, method, path, body, API_TIMEOUT_MS, NULL, err);
}

/* ---- start ---- */

/* Reads what it logs, keeping the end of it. False at its end. */
static bool read_log(struct fc_vm *f)
{
	char data[LOG_BYTES / 2];
	ssize_t n = f->log_fd < 0 ? 0 : read(f->log_fd, data, sizeof(data));
	size_t keep;

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	keep = MIN(f->log_len, sizeof(f->log) - (size_t)n);
	memmove(f->log, f->log + f->log_len - keep, keep);
	memcpy(f->log + keep, data, (size_t)n);
	f->log_len = keep + (size_t)n;
	return true;
}

static int fc_settle(struct vm *vm, struct err *err)
{
	static const char words[] = "Listening on API socket";
	struct fc_vm *f = fc_of(vm);
	int64_t deadline = clock_mono_ms() + START_TIMEOUT_MS;

	while (!f->listens) {
		struct pollfd p[] = {{.fd = f->log_fd, .events = POLLIN},
			{.fd = vm->pidfd, .events = POLLIN}};
		int64_t left = deadline - clock_mono_ms();
		char why[200];

		f->listens = memmem(f->log, f->log_len, words, strlen(words)) != NULL;
		if (f->listens)
			break;
		if (left <= 0)
			return err_set(err, ERR_ENGINE, -ETIMEDOUT,
				"Firecracker does not listen to us");
		if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			return err_set_errno(err, -errno, "can't wait for Firecracker");
		if (!read_log(f) && p[1].revents) {
			vm_reap(vm);
			vm->ops->why_dead(vm, why, sizeof(why));
			return err_set(err, ERR_ENGINE, -EPIPE, "%s", why);
		}
	}
	return 0;
}

static struct vm *new_vm(const char *dir, enum accel accel)
{
	struct fc_vm *f = xnew(struct fc_vm);

	f->log_fd = -1;
	vm_init(&f->vm, &firecracker_ops, dir, accel);
	return &f->vm;
}

/* ---- the link ---- */

/* Waits until that descriptor can be read, or the machine has ended. */
static int wait_for(struct vm *vm, int fd, int64_t deadline_ms)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = vm->pidfd, .events = POLLIN}};
	int64_t left;

	do {
		left = deadline_ms - clock_mono_ms();
		if (left <= 0)
			return -ETIMEDOUT;
	} while (poll(p, 2, (int)left) < 0 && errno == EINTR);
	return p[0].revents ? 0 : p[1].revents ? -EPIPE : -ETIMEDOUT;
}

/* Firecracker's own words, before the bytes of the connection: CONNECT, and OK with a number. */
static int shake_hands(struct vm *vm, int fd, int64_t deadline_ms)
{
	char request[32], answer[ANSWER_BYTES];
	int len = snprintf(request, sizeof(request), "CONNECT %d\n", GUEST_VSOCK_PORT);
	size_t n = 0;

	if (send(fd, request, (size_t)len, MSG_NOSIGNAL) != len)
		return -EPIPE;
	while (n == 0 || answer[n - 1] != '\n') {
		int r = wait_for(vm, fd, deadline_ms);

		/* A byte at a time: what follows is the guest's. */
		if (r == 0 && (n == sizeof(answer) || recv(fd, answer + n, 1, 0) != 1))
			r = -ECONNREFUSED;
		if (r < 0)
			return r;
		n++;
	}
	return n > 3 && memcmp(answer, "OK ", 3) == 0 ? 0 : -EPROTO;
}

/* A connection to the agent. */
static int connect_agent(struct vm *vm, int dir_fd, int64_t deadline_ms)
{
	int r = -ETIMEDOUT;

	while (r == -ETIMEDOUT && clock_mono_ms() < deadline_ms) {
		_cleanup_close_ int fd = unix_connect(dir_fd, "run/link.sock", SOCK_STREAM);

		r = fd < 0
			? fd
			: shake_hands(vm, fd, MIN(deadline_ms, clock_mono_ms() + CONNECT_TRY_MS));
		if (r == 0)
			return steal_fd(&fd);
	}
	return r;
}

/*
 * Twice, and the second one counts: after a stop the guest's first interrupt brings both the connection and the news that the device
 * was reset. It accepts, and then ends what is connected (before 1.16, which holds back connections until the news has been heard).
 */
static int fc_relink(struct vm *vm, struct err *err)
{
	_cleanup_close_ int dir_fd = open_dir(vm, err), first_fd = -1, fd = -1;
	int64_t deadline = clock_mono_ms() + LINK_TIMEOUT_MS;

	if (dir_fd < 0)
		return dir_fd;
	first_fd = connect_agent(vm, dir_fd, deadline);
	fd = first_fd < 0 ? first_fd : connect_agent(vm, dir_fd, deadline);
	if (fd < 0)
		return err_set(err, ERR_ENGINE, fd == -ECONNREFUSED ? -EPIPE : fd,
			"can't reach the machine's vsock: %s", strerror(-fd));
	cleanup_close(&vm->link_fd);
	vm->link_fd = steal_fd(&fd);
	return 0;
}

/* ---- a first boot ---- */

struct request {
	const char *path;
	json_t *body; /* owned; NULL: it is not made */
};

static int configure(struct vm *vm, const struct vm_spec *spec, struct err *err)
{
	const struct machine_image *image = spec->image;
	_cleanup_free_ char *initrd = fs_join(image->dir, "initrd");
	const struct request requests[] = {
		{"/machine-config",
			json_pack("{s:I, s:I}", "vcpu_count", (json_int_t)image->cpus,
				"mem_size_mib", (json_int_t)(image->memory_bytes >> 20))},
		{"/boot-source",
			json_pack("{s:s, s:s, s:s}", "kernel_image_path", "vmlinux", "initrd_path",
				initrd, "boot_args", KERNEL_COMMAND_LINE)},
		{"/drives/base",
			json_pack("{s:s, s:s, s:b, s:b}", "drive_id", "base", "path_on_host",
				"base.ext4", "is_root_device", 0, "is_read_only", 1)},
		{"/drives/scratch",
			json_pack("{s:s, s:s, s:b, s:b}", "drive_id", "scratch", "path_on_host",
				"scratch.ext4", "is_root_device", 0, "is_read_only", 0)},
		{"/vsock",
			json_pack("{s:i, s:s}", "guest_cid", GUEST_VSOCK_CID, "uds_path",
				"run/link.sock")},
		{"/network-interfaces/eth0",
			image->card ? json_pack("{s:s, s:s, s:s}", "iface_id", "eth0", "guest_mac",
					      GUEST_NET_MAC_TEXT, "host_dev_name", JAIL_CARD_NAME)
				    : NULL},
		{"/entropy", json_object()},
		{"/actions", json_pack("{s:s}", "action_type", "InstanceStart")},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		if (r == 0 && requests[i].body)
			r = call(vm, "PUT", requests[i].path, requests[i].body, err);
		else
			json_decref(requests[i].body);
	}
	return r;
}

/* Boots, and waits for the agent's knock: from then on it can be connected to. */
static int boot(struct vm *vm, const struct vm_spec *spec, int dir_fd, struct err *err)
{
	_cleanup_free_ char *kernel = fs_join(spec->image->dir, "kernel");
	_cleanup_free_ char *elf = fs_join(spec->dir, "vmlinux");
	_cleanup_close_ int knock_fd = -1;
	char name[32];
	int r;

	if (spec->image->memory_bytes > MIB(MEMORY_MAX_MIB))
		return err_set(err, ERR_UNSUPPORTED, -ENOSYS,
			"firecracker: machines of more than %d MB are not supported",
			MEMORY_MAX_MIB);
	(void)snprintf(name, sizeof(name), "run/link.sock_%d", HOST_VSOCK_PORT);
	knock_fd = unix_listen(dir_fd, name, SOCK_STREAM);
	if (knock_fd < 0)
		return err_set_errno(err, knock_fd, "can't make a socket in %s", spec->dir);
	fc_of(vm)->memory_path = fs_join(spec->image->dir, "memory");
	r = kernel_image_extract(kernel, elf, err);
	if (r == 0)
		r = fc_settle(vm, err);
	if (r == 0)
		r = configure(vm, spec, err);
	if (r < 0)
		return r;
	r = wait_for(vm, knock_fd, clock_mono_ms() + BOOT_TIMEOUT_MS);
	if (r < 0) {
		char why[256] = "its agent does not answer";

		if (r == -EPIPE) {
			vm_reap(vm);
			vm->ops->why_dead(vm, why, sizeof(why));
		}
		return err_set(err, ERR_ENGINE, r, "the machine does not boot: %s", why);
	}
	return fc_relink(vm, err);
}

static int fc_start(const struct vm_spec *spec, struct vm **ret, struct err *err)
{
	_cleanup_close_ int dir_fd = open(spec->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct vm *vm;
	int r;

	if (dir_fd < 0)
		return err_set_errno(err, -errno, "can't open %s", spec->dir);
	vm = new_vm(spec->dir, spec->image->accel);
	r = fc_process_start(vm, spec, dir_fd, &fc_of(vm)->log_fd, err);
	if (r == 0 && spec->cold)
		r = boot(vm, spec, dir_fd, err);
	if (r < 0) {
		if (vm->is_child)
			vm_kill(vm);
		vm_free(vm);
		return r;
	}
	*ret = vm;
	return 0;
}

/* ---- restore ---- */

static int fc_load(struct vm *vm, const struct vm_spec *spec, struct err *err)
{
	const char *state = spec->state_dir ? spec->state_dir : spec->image->dir;
	_cleanup_free_ char *devices = fs_join(state, "devices"), *delta = fs_join(state, "delta");
	bool has_own;
	_cleanup_free_ char *memory_path = fc_process_memory(spec, &has_own);
	_cleanup_free_ char *shown = fs_join(vm->dir, "devices");
	struct guest_memory memory;
	int r = fc_settle(vm, err);

	/* To where it can read it, whatever our umask is. */
	if (r == 0)
		r = fs_clone(devices, shown, 0600, err);
	if (r == 0 && chmod(shown, 0644) < 0)
		r = err_set_errno(err, -errno, "can't open %s to its machine", shown);
	if (r == 0)
		r = call(vm, "PUT", "/snapshot/load",
			json_pack("{s:s, s:{s:s, s:s}, s:b}", "snapshot_path", "devices",
				"mem_backend", "backend_type", "File", "backend_path", memory_path,
				"resume_vm", 0),
			err);
	(void)unlink(shown); /* at the latest the next machine removes it */
	/* Only a captured state that has all its memory in a file may be without. */
	if (r == 0 && spec->state_dir && (!has_own || access(delta, F_OK) == 0)) {
		r = guest_memory_find(vm->pid, spec->image->memory_bytes, &memory);
		r = r < 0 ? err_set_errno(err, r, "can't find the machine's memory")
			  : delta_load(delta, &memory, err);
	}
	if (r == 0)
		r = call(vm, "PATCH", "/vm", json_pack("{s:s}", "state", "Resumed"), err);
	return r < 0 ? r : fc_relink(vm, err);
}

/* ---- standing still ---- */

/* Its devices are written first, and the memory can't be: see above. */
static int save(struct vm *vm, const char *devices, const char *memory, struct err *err)
{
	return call(vm, "PUT", "/snapshot/create",
		json_pack("{s:s, s:s, s:s}", "snapshot_type", "Full", "snapshot_path", devices,
			"mem_file_path", memory),
		err);
}

/* "Running" or "Paused". */
static int is_paused(struct vm *vm, struct err *err)
{
	_cleanup_close_ int dir_fd = open_dir(vm, err);
	json_t *answer = NULL;
	const char *state;
	int r = dir_fd < 0 ? dir_fd
			   : fc_api_call(dir_fd, "GET", "/", NULL, API_TIMEOUT_MS, &answer, err);

	state = json_string_value(json_object_get(answer, "state"));
	if (r == 0)
		r = state ? strcmp(state, "Paused") == 0
			  : err_set(err, ERR_ENGINE, -EPROTO, "Firecracker does not say its state");
	json_decref(answer);
	return r;
}

static int fc_pause(struct vm *vm, struct err *err)
{
	int r = is_paused(vm, err);

	if (r != 0)
		return MIN(r, 0);
	return call(vm, "PATCH", "/vm", json_pack("{s:s}", "state", "Paused"), err);
}

/* Nothing is asked of one that runs: it would deliver nothing more to the guest. */
static int fc_unpause(struct vm *vm, struct err *err)
{
	int r = is_paused(vm, err);
	struct err wanted;

	if (r <= 0)
		return r;
	/* The link's device has to have been saved, even if into nothing: the failure is the memory's. */
	(void)save(vm, "/dev/null", "/dev/null", &wanted);
	return call(vm, "PATCH", "/vm", json_pack("{s:s}", "state", "Resumed"), err);
}

/* Takes what it has left in `run`, once: whatever else may be there is none. */
static int take_devices(struct vm *vm, const char *path, struct err *err)
{
	_cleanup_close_ int dir_fd = open_dir(vm, err), from = -1, to = -1;
	_cleanup_free_ char *data = NULL;
	struct stat st;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	from = openat(dir_fd, "run/devices", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0 ||
		st.st_size > DEVICES_MAX)
		return err_set(err, ERR_ENGINE, -EPROTO, "Firecracker left no device state");
	data = xcalloc(1, (size_t)st.st_size);
	r = fs_pread_all(from, data, (size_t)st.st_size, 0);
	(void)unlinkat(dir_fd, "run/devices", 0); /* the next one would take its place */
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (r == 0)
		r = to < 0 ? -errno : fs_write_all(to, data, (size_t)st.st_size);
	return r < 0 ? err_set_errno(err, r, "can't write %s", path) : 0;
}

static int fc_save_devices(struct vm *vm, const char *path, struct err *err)
{
	const char *memory = fc_of(vm)->memory_path;
	struct err why;
	int r = save(vm, "run/devices", memory ? memory : "/dev/null", &why);

	if (!memory && r == 0)
		return err_set(err, ERR_ENGINE, -EPROTO,
			"Firecracker saved no memory and did not say so");
	/* The failure that is wanted: the devices are there. */
	if (!memory && r == -EREMOTEIO && strstr(err_msg(&why), "emory"))
		r = 0;
	if (r < 0 && err)
		*err = why;
	return r < 0 ? r : take_devices(vm, path, err);
}

static int fc_save_memory(struct vm *vm, uint64_t memory_bytes, const char *base, const char *path,
	uint64_t *ret_bytes, struct err *err)
{
	struct guest_memory memory;
	int r = guest_memory_find(vm->pid, memory_bytes, &memory);

	if (r < 0)
		return err_set_errno(err, r, "can't find the machine's memory");
	return delta_save(&memory, base, path, ret_bytes, err);
}

/* ---- the rest of the interface ---- */

static int fc_adopt(const char *dir, struct vm **ret, struct err *err)
{
	struct vm *vm = new_vm(dir, ACCEL_KVM);
	_cleanup_close_ int dir_fd = open_dir(vm, err);
	int r = dir_fd < 0 ? dir_fd : vm_folder_find(vm, err);

	if (r == 0)
		r = fc_process_open_console(vm, dir_fd, err);
	/* The guest must run to be connected to: what the earlier daemon stopped is stopped again by ours. */
	if (r == 0)
		r = fc_unpause(vm, err);
	if (r == 0)
		r = fc_relink(vm, err);
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	fc_of(vm)->listens = true;
	*ret = vm;
	return 0;
}

/* The packet socket that its process holds, or whatever else that has put there. */
static int fc_open_network(struct vm *vm, int *ret_fd, struct err *err)
{
	int fd = pidfd_getfd(vm->pidfd, JAIL_CARD_FD, 0), domain = -1;
	socklen_t len = sizeof(domain);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
		domain != AF_PACKET) {
		cleanup_close(&fd);
		return err_set(err, ERR_ENGINE, -ENODEV, "the machine has no network card");
	}
	*ret_fd = fd;
	return 0;
}

static void fc_why_dead(struct vm *vm, char *msg, size_t size)
{
	struct fc_vm *f = fc_of(vm);

	for (int i = 0; i < LOG_READS_MAX && read_log(f); i++)
		; /* the last words are at the end of the pipe */
	why_dead("Firecracker", vm, f->log, f->log_len, msg, size);
}

static void fc_free(struct vm *vm)
{
	struct fc_vm *f = fc_of(vm);

	cleanup_close(&f->log_fd);
	free(f->memory_path);
	free(f);
}

const struct engine_ops firecracker_ops = {
	.name = "firecracker",
	.cpu_models = {[ACCEL_KVM] = "host"},
	.probe = firecracker_probe,
	.prepare = firecracker_prepare,
	.start = fc_start,
	.settle = fc_settle,
	.load = fc_load,
	.adopt = fc_adopt,
	.kill_left = vm_folder_kill_left,
	.pause = fc_pause,
	.unpause = fc_unpause,
	.relink = fc_relink,
	.save_devices = fc_save_devices,
	.save_memory = fc_save_memory,
	.open_network = fc_open_network,
	.why_dead = fc_why_dead,
	.free = fc_free,
};
