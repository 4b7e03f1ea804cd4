/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a short loop in a vCPU of its own and looks at the clock.
 *
 * The guest is one 2 MiB page: page tables that map it to itself, and code that counts a register
 * down and halts. Register values: Intel SDM, volume 3, 9.8.5 (entering IA-32e mode).
 * A KVM that never comes back from a guest is brought back by a signal, from a timer that ticks until the probe is
 * over: a single one could come just before the guest is entered.
 */
#include "engine/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"

#define DEVICE "/dev/kvm"

enum {
	GUEST_BYTES = 2 << 20,
	PML4 = 0x1000,
	PDPT = 0x2000,
	PD = 0x3000,
	CODE = 0x4000,
	ATTEMPTS = 5,
	ROUNDS = 20000,
	/* They take hardware some 10 us, an interpreting KVM 20 ms and more. */
	LIMIT_US = 4000,
	/* Where this machine is slow itself (busy, or virtual in software): so many times what they take it. */
	LIMIT_FACTOR = 50,
	/* Of one attempt. */
	TIMEOUT_MS = 500,
};

static const uint8_t code[] = {
	0xb9, 0x20, 0x4e, 0x00, 0x00, /* mov ecx, 20000 */
	0xff, 0xc9,                   /* again: dec ecx */
	0x75, 0xfc,                   /* jnz again */
	0xf4,                         /* hlt */
};

struct probe {
	int kvm_fd, vm_fd, vcpu_fd;
	uint8_t *memory;
	struct kvm_run *run;
	size_t run_bytes;
};

static void probe_done(struct probe *p)
{
	if (p->run)
		(void)munmap(p->run, p->run_bytes);
	if (p->memory)
		(void)munmap(p->memory, GUEST_BYTES);
	cleanup_close(&p->vcpu_fd);
	cleanup_close(&p->vm_fd);
	cleanup_close(&p->kvm_fd);
}

static void *map(int fd, size_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int make_vm(struct probe *p)
{
	struct kvm_userspace_memory_region region = {.memory_size = GUEST_BYTES};
	int size;

	p->vm_fd = ioctl(p->kvm_fd, KVM_CREATE_VM, 0);
	if (p->vm_fd < 0)
		return -errno;
	p->memory = map(-1, GUEST_BYTES, MAP_SHARED | MAP_ANONYMOUS);
	if (!p->memory)
		return -ENOMEM;
	region.userspace_addr = (uintptr_t)p->memory;
	if (ioctl(p->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return -errno;
	p->vcpu_fd = ioctl(p->vm_fd, KVM_CREATE_VCPU, 0);
	if (p->vcpu_fd < 0)
		return -errno;
	size = ioctl(p->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(struct kvm_run))
		return -EINVAL;
	p->run_bytes = (size_t)size;
	p->run = map(p->vcpu_fd, p->run_bytes, MAP_SHARED);
	return p->run ? 0 : -errno;
}

static void write_guest(uint8_t *memory)
{
	const uint64_t tables[][2] = {
		{PML4, PDPT | 3},               /* present, writable */
		{PDPT, PD | 3}, {PD, 0x80 | 3}, /* one page of 2 MiB */
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		memcpy(memory + tables[i][0], &tables[i][1], sizeof(uint64_t));
	memcpy(memory + CODE, code, sizeof(code));
}

static int enter_long_mode(const struct probe *p)
{
	const struct kvm_segment data = {.limit = UINT32_MAX,
		.selector = 16,
		.type = 3,
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1};
	struct kvm_regs regs = {.rip = CODE, .rflags = 2};
	struct kvm_sregs s;

	if (ioctl(p->vcpu_fd, KVM_GET_SREGS, &s) < 0)
		return -errno;
	s.cr3 = PML4;
	s.cr4 = 1 << 5;                /* PAE */
	s.cr0 = 1U << 31 | 1 << 4 | 1; /* PG, ET, PE */
	s.efer = 1 << 10 | 1 << 8;     /* LMA, LME */
	s.cs = (struct kvm_segment){.limit = UINT32_MAX,
		.selector = 8,
		.type = 11,
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1};
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	if (ioctl(p->vcpu_fd, KVM_SET_SREGS, &s) < 0 || ioctl(p->vcpu_fd, KVM_SET_REGS, &regs) < 0)
		return -errno;
	return 0;
}

static void on_tick(int sig)
{
}

/* Enters the guest. 0, or an errno: -ETIMEDOUT when it does not halt in time. */
static int run_guest(const struct probe *p)
{
	const struct itimerspec ticks = {
		.it_value.tv_nsec = TIMEOUT_MS * 1000000L,
		.it_interval.tv_nsec = 10 * 1000000L,
	};
	const struct sigaction act = {.sa_handler = on_tick}; /* no SA_RESTART: it ends the call */
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct sigaction old_act;
	sigset_t ours, old_mask;
	timer_t timer;
	int r = 0;

	ev._sigev_un._tid = gettid(); /* glibc gives it no other name */
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer) < 0)
		return -errno;
	sigemptyset(&ours);
	sigaddset(&ours, SIGRTMIN);
	(void)sigaction(SIGRTMIN, &act, &old_act);
	(void)pthread_sigmask(SIG_UNBLOCK, &ours, &old_mask);
	if (timer_settime(timer, 0, &ticks, NULL) < 0 || ioctl(p->vcpu_fd, KVM_RUN, 0) < 0)
		r = errno == EINTR ? -ETIMEDOUT : -errno;
	/* A tick that was on its way is taken by the handler before the old one is back. */
	(void)timer_delete(timer);
	(void)pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
	(void)sigaction(SIGRTMIN, &old_act, NULL);
	return r;
}

/* Microseconds that the loop took, or an errno. */
static int64_t time_loop(const struct probe *p)
{
	int r = enter_long_mode(p);
	int64_t start = clock_mono_us();

	if (r == 0)
		r = run_guest(p);
	if (r < 0)
		return r;
	return p->run->exit_reason == KVM_EXIT_HLT ? clock_mono_us() - start : -EIO;
}

/* What whoever may not open it has to do: join the group that may, or have its owner let one in. */
static void explain_forbidden(char *why, size_t size)
{
	struct group entry, *group = NULL;
	char names[1024];
	struct stat st;

	if (stat(DEVICE, &st) == 0 && st.st_gid != 0 && (st.st_mode & 0060) == 0060)
		(void)getgrgid_r(st.st_gid, &entry, names, sizeof(names), &group);
	if (group)
		(void)snprintf(why, size,
			DEVICE " may not be opened by this user; join its group and log in again: "
			       "sudo usermod -aG %.32s $USER",
			group->gr_name);
	else
		(void)snprintf(why, size,
			DEVICE " may not be opened by this user, and has no group to join: "
			       "sudo chgrp kvm " DEVICE " && sudo chmod 660 " DEVICE
			       " && sudo usermod -aG kvm $USER, and log in again");
}

/* The same loop without a guest around it, at its fastest: others may run in between. */
static int64_t time_native_us(void)
{
	int64_t best = INT64_MAX;

	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		int64_t start = clock_mono_us();

		for (int i = 0; i < ROUNDS; i++)
			__asm__ volatile("");
		best = MIN(best, clock_mono_us() - start);
	}
	return best;
}

bool kvm_probe(struct guest_cpu *ret, char *why, size_t size)
{
	CLEANUP(probe_done) struct probe p = {.kvm_fd = -1, .vm_fd = -1, .vcpu_fd = -1};
	int64_t us = INT64_MAX, limit_us = MAX(LIMIT_FACTOR * time_native_us(), (int64_t)LIMIT_US);
	int r;

	p.kvm_fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (p.kvm_fd < 0 && (errno == EACCES || errno == EPERM)) {
		explain_forbidden(why, size);
		return false;
	}
	if (p.kvm_fd < 0) {
		(void)snprintf(why, size, "no hardware virtualisation (" DEVICE ": %s)",
			strerror(errno));
		return false;
	}
	r = make_vm(&p);
	if (r == 0)
		write_guest(p.memory);
	for (int i = 0; r == 0 && us > limit_us && i < ATTEMPTS; i++) {
		us = time_loop(&p);
		r = us < 0 ? (int)us : 0;
	}
	if (r == 0 && us <= limit_us)
		r = guest_cpu_read(p.kvm_fd, ret);
	if (r == -EBUSY)
		(void)snprintf(why, size,
			DEVICE
			" is busy: another hypervisor (VirtualBox, VMware) holds the processor");
	else if (r < 0)
		(void)snprintf(why, size, DEVICE " opens but runs no guest: %s", strerror(-r));
	else if (us > limit_us)
		(void)snprintf(why, size,
			DEVICE " opens but interprets its guests (%lld us for a loop of 20,000)",
			(long long)us);
	else
		(void)snprintf(why, size, DEVICE " works");
	return r == 0 && us <= limit_us;
}
