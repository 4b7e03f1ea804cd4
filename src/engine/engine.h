/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine interface: how a machine is started, reached, captured and ended.
 *
 * Theory of operation
 * -------------------
 * A *machine image* is what the template bake leaves: a read-only base disk, a kernel with its
 * initramfs, and, once booted and warmed, the memory and the device state of the running machine.
 * A *vm* is one running machine: a process outside of the daemon with a folder of its own, in which
 * its writable disk and its sockets lie. The daemon may die at any moment: the vm runs on, and
 * `adopt` finds it again by what it left in its folder (`vm.json`).
 *
 * A vm is used by one thread at a time, except `vm_kill()` and the pidfd, which any thread may use.
 * All calls may block for as long as the engine takes, bounded by the deadlines in the drivers.
 * No caller looks at which engine it has: what an engine can't do is declared in `engine_info` and
 * answered with ERR_UNSUPPORTED.
 *
 * What an engine process says (sockets, files in the vm's folder) is input, never trusted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/guest_cpu.h"

enum accel {
	ACCEL_KVM, /* hardware virtualisation */
	ACCEL_TCG, /* software emulation */
	_ACCEL_MAX,
};

const char *accel_name(enum accel a);
/* 0 or -EINVAL. */
int accel_from_name(const char *name, enum accel *ret);

enum { ENGINE_LACKS_MAX = 4 };

/* What this machine offers, found by the engine's probe. */
struct engine_info {
	const char *name;      /* "qemu" */
	const char *isolation; /* "microvm" */
	bool available;
	enum accel accel;     /* the best one that works */
	struct guest_cpu cpu; /* with ACCEL_KVM */
	char version[64];     /* of the engine's program, "" when not available */
	uint64_t tsc_khz;     /* of this machine; guests under software emulation depend on it */
	char why[256];        /* why not available, or why this accel */
	const char *lacks
		[ENGINE_LACKS_MAX]; /* what it can't do, in the words of the API (Engine in openapi.yaml); NULL at the end */
};

/* ERR_UNSUPPORTED, with that word, where the engine lacks it. */
int engine_require(const struct engine_info *engine, const char *word, struct err *err);

/* What a machine is; fixed by the bake, the same for every vm of a template. */
struct machine_image {
	char *dir; /* absolute; holds rootfs.ext4, scratch.ext4, kernel, initrd, memory, devices */
	enum accel accel;
	char *cpu_model;      /* the engine's name for it */
	struct guest_cpu cpu; /* what "host" was, with ACCEL_KVM */
	unsigned int cpus;
	uint64_t memory_bytes;
	uint64_t tsc_khz; /* what its guest believes; 0 where that does not matter */
	bool card;        /* it has a network card: unless the engine lacked `network` */
};

/* Where a new vm lives and what it starts from. */
struct vm_spec {
	const struct machine_image *image;
	const char *dir; /* absolute, the vm's own; `scratch.ext4` in it is its writable disk */
	/* Boot the kernel, with the image's memory as a file to be created; else restore. */
	bool cold;
	/*
	 * What to restore: a folder with `devices`, and with `delta` (the pages that differ from the image's
	 * memory) or `memory` (in its place). NULL: the image's own.
	 */
	const char *state_dir;
};

enum { VM_CONSOLE_BYTES = 4096 };

struct vm;

struct engine_ops {
	const char *name;

	/* The processor that a template is baked for, in the engine's words. */
	const char *cpu_models[_ACCEL_MAX];

	/* Finds out what works here; fills *ret always. Cheap enough for each start of the daemon. */
	void (*probe)(struct engine_info *ret);

	/* Prepares the host for its machines, once it was chosen; what that can't do goes to `why`. Or NULL. */
	void (*prepare)(struct engine_info *info);

	/*
	 * Starts a machine. On success its process runs. A cold one boots, and its link can be taken; another waits
	 * for load(), in a state that is the same for all of its template.
	 */
	int (*start)(const struct vm_spec *spec, struct vm **ret, struct err *err);

	/* Waits until the process has set itself up and does nothing but wait for load(): which goes faster then. */
	int (*settle)(struct vm *vm, struct err *err);

	/*
	 * Puts the state of the spec in place and lets the machine run, once. Its memory file must be that of the spec
	 * that the machine was started with; its folder does not matter. From then on its link can be taken.
	 */
	int (*load)(struct vm *vm, const struct vm_spec *spec, struct err *err);

	/* Takes over a machine that an earlier daemon started in that folder; -ESRCH when it is gone. */
	int (*adopt)(const char *dir, struct vm **ret, struct err *err);

	/* Kills a machine that nobody wants any more, if one runs in that folder. */
	void (*kill_left)(const char *dir);

	/* Stops the vCPUs, and lets them go on. */
	int (*pause)(struct vm *vm, struct err *err);
	int (*unpause)(struct vm *vm, struct err *err);

	/* Of an engine whose link does not outlive that: connects it anew, once the vCPUs run again. Else NULL. */
	int (*relink)(struct vm *vm, struct err *err);

	/* Writes the device state to `path`, a new file. The machine is paused. */
	int (*save_devices)(struct vm *vm, const char *path, struct err *err);

	/* Writes the pages that differ from the machine's memory file, or from `base`, to `path`, a new file: see
	 * delta_save() of memory_delta.h. The machine is paused. */
	int (*save_memory)(struct vm *vm, uint64_t memory_bytes, const char *base, const char *path,
		uint64_t *ret_bytes, struct err *err);

	/*
	 * Connects to the network card of a machine that runs: a socket on which each datagram is an Ethernet frame. The latest
	 * one counts; frames that the guest sends without any are lost. It does not tell when the machine ends.
	 */
	int (*open_network)(struct vm *vm, int *ret_fd, struct err *err);

	/* Why the process ended, for people ("guest kernel panic: …"). After vm_reap(), and with nobody else who
	 * reads the console. */
	void (*why_dead)(struct vm *vm, char *msg, size_t size);

	/* Frees what the driver allocated; the process is dead or abandoned by then. */
	void (*free)(struct vm *vm);
};

/*
 * What all drivers share of a vm. A driver embeds it first in its own struct.
 */
struct vm {
	const struct engine_ops *ops;
	char *dir; /* owned */
	enum accel accel;
	pid_t pid;
	int pidfd;      /* owned; readable once the process has ended */
	int link_fd;    /* owned until taken by vm_take_link(); connected, -1 after */
	int console_fd; /* owned; the guest's console, non-blocking */
	bool is_child;  /* ours to reap */
	int status;     /* after vm_reap(): exit status or 128 + signal, -1 when not known */
	size_t console_len;
	char console[VM_CONSOLE_BYTES]; /* the last that the guest's console said */
	/* Takes all that it says, as it is read; or NULL. */
	void (*on_console)(void *user, const void *data, size_t len);
	void *console_user;
	struct cgroup cgroup; /* owned; its process and nothing else is in it, or none */
};

extern const struct engine_ops qemu_ops;
extern const struct engine_ops firecracker_ops;

/* The engines of this build, strongest isolation and longest proven first; NULL-terminated. */
extern const struct engine_ops *const engines[];

/* Finds one of them by its name; `auto` is the first that works. Fills *ret_info; -ENOENT (ERR_ENGINE) with the reason. */
int engine_pick(const char *name, const struct engine_ops **ret, struct engine_info *ret_info,
	struct err *err);

/* Hands over the connected socket of the guest link. */
int vm_take_link(struct vm *vm);

/* Reads what the guest wrote to its console, keeping the end of it; never waits, and leaves the rest for the
 * next time where there is very much of it. The console must be read, or the guest's kernel waits for its own
 * messages to be taken. False at its end. */
bool vm_drain_console(struct vm *vm);

/* What its process takes of the host. -ESRCH when it has ended. */
struct vm_usage {
	pid_t pid;
	int64_t uptime_ms;
	int64_t cpu_ms; /* of all its threads, since its start */
	uint64_t rss_bytes;
	uint64_t vsz_bytes;
	unsigned int threads;
};
int vm_get_usage(const struct vm *vm, struct vm_usage *ret);

/* Renames its folder. */
int vm_move(struct vm *vm, const char *dir, struct err *err);

/* Kills the process, and all else in its cgroup, and waits for its end. */
void vm_kill(struct vm *vm);

/* Takes the exit status of a process that has ended (its pidfd is readable). */
void vm_reap(struct vm *vm);

/* Frees the handle; the process runs on unless it was killed. Returns NULL. */
struct vm *vm_free(struct vm *vm);
