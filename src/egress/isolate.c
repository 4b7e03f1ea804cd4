/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up everything but sockets. */
#include "egress/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/user_ns.h"
#include "egress/host_calls.h"

enum {
	NOBODY = 65534,
	MEMORY_BYTES = 1 << 30, /* 1,000 connections with full windows take a quarter */
};

static int become_nobody(struct err *err)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return err_set_errno(err, -errno, "can't take the ids of nobody");
	/* A change of ids makes /proc/self root's, where the namespaces' maps are written. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	return 0;
}

/* pivot_root(2): the new root is mounted over the old one and then freed of it. */
static int empty_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"size=4k,mode=0555") < 0 ||
		chdir("/proc") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
		mount(NULL, "/", NULL,
			MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			NULL) < 0)
		return -errno;
	return 0;
}

/* Goes on in a child, the first of its namespace; the process that was started ends. */
static int enter_namespaces(struct err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid;
	int r;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
		log_info("this host allows no user namespaces", LOG_STR("why", strerror(errno)));
		return 0;
	}
	r = user_ns_map(uid, gid);
	if (r == 0)
		r = empty_root();
	if (r < 0)
		return err_set_errno(err, r, "can't leave the file system");
	pid = fork();
	if (pid < 0)
		return err_set_errno(err, -errno, "can't fork");
	if (pid > 0)
		_exit(0);
	return 0;
}

/* A sanitizer's runtime has memory and makes calls that the program has not. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static int set_limits(struct err *err)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t value;
	} limits[] = {
		{RLIMIT_NOFILE, HOST_CALLS_FDS_MAX},
		{RLIMIT_DATA, MEMORY_BYTES},
		{RLIMIT_FSIZE, 0},
		{RLIMIT_NPROC, 0},
		{RLIMIT_CORE, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit now, new = {limits[i].value, limits[i].value};

		if (SANITIZED && limits[i].what == RLIMIT_DATA)
			continue;
		if (getrlimit(limits[i].what, &now) < 0)
			return err_set_errno(err, -errno, "can't read a limit");
		new.rlim_cur = new.rlim_max = MIN(new.rlim_max, now.rlim_max);
		if (setrlimit(limits[i].what, &new) < 0)
			return err_set_errno(err, -errno, "can't set a limit");
	}
	return 0;
}

static int drop_privileges(struct err *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set_errno(err, -errno, "can't drop privileges");
	return 0;
}

static const int calls[] = {
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(connect),
	SCMP_SYS(accept4),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(close),
	SCMP_SYS(fcntl),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(getrandom),
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	/* abort(): */
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(tgkill),
	SCMP_SYS(rt_sigaction),
};

static int add_special_calls(scmp_filter_ctx ctx)
{
	static const uint64_t type_mask = 0xF; /* without SOCK_CLOEXEC and SOCK_NONBLOCK */
	static const int families[] = {AF_INET, AF_INET6};
	static const unsigned long requests[] = {FIONREAD, FIONBIO};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(families); i++) {
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
			SCMP_A0(SCMP_CMP_EQ, (uint64_t)families[i]),
			SCMP_A1(SCMP_CMP_MASKED_EQ, type_mask, SOCK_STREAM));
		if (r == 0)
			r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				SCMP_A0(SCMP_CMP_EQ, (uint64_t)families[i]),
				SCMP_A1(SCMP_CMP_MASKED_EQ, type_mask, SOCK_DGRAM));
		/* libslirp tries this where the host allows no sockets for echo. */
		if (r == 0)
			r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 2,
				SCMP_A0(SCMP_CMP_EQ, (uint64_t)families[i]),
				SCMP_A1(SCMP_CMP_MASKED_EQ, type_mask, SOCK_RAW));
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(requests); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
			SCMP_A1(SCMP_CMP_EQ, requests[i]));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r;
}

static int filter_calls(struct err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
	if (r == 0)
		r = add_special_calls(ctx);
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	return r < 0 ? err_set_errno(err, r, "can't load the filter of system calls") : 0;
}

int isolate(struct err *err)
{
	int r = become_nobody(err);

	if (r == 0)
		r = enter_namespaces(err);
	if (r == 0)
		r = set_limits(err);
	if (r == 0)
		r = drop_privileges(err);
	return r == 0 && !SANITIZED ? filter_calls(err) : r;
}
