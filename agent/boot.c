/* SPDX-License-Identifier: Apache-2.0 */
/* From the kernel's first process to a machine that is ready to serve. */
/*
 * Theory of operation
 *
 * The kernel starts /init, this program, in an initramfs that also holds /modules: the drivers of
 * the devices that the engine gives the machine, and `order`, their file names in the order in which
 * they need each other. The root is an overlay: the template's disk (serial "base", read-only,
 * shared by many machines) under the sandbox's own ("scratch"). Disks are found by serial and the
 * host's port by name, for the kernel's names follow the order of discovery.
 *
 * Every step is needed, so the first that fails ends the machine with one line on the console;
 * modules are the exception, since which exist depends on the kernel's configuration, and what is
 * really missing shows a step later.
 *
 * The kernel's housekeeping is set up for a machine that is idle most of its life: see `settings`.
 */
#include "boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "cgroup.h"
#include "file_io.h"
#include "network.h"
#include "packages.h"
#include "vsock.h"

enum {
	DEVICE_TRIES = 250, /* drivers find their devices as they load; this is for slow ones */
	DEVICE_NAP_MS = 20,
	ORDER_BYTES = 64 * 1024,
	ATTRIBUTE_BYTES = 8 * 1024,
	NICE = -20,
};

const char boot_cgroup_path[] = "/sys/fs/cgroup/work";

static const char link_port_name[] = "pandastack.link";

static const struct {
	const char *path;
	const char *value;
} settings[] = {
	/*
	 * Memory that runs out in spite of the limits of cgroup.c ends the machine, and the host says
	 * why: the alternative is a machine that is busy with reclaim for ever.
	 */
	{"/proc/sys/vm/panic_on_oom", "1"},
	/* Nothing may tick in an idle machine. */
	{"/proc/sys/vm/stat_interval", "86400"},
	{"/proc/sys/vm/dirty_writeback_centisecs", "3000"},
	{"/proc/sys/vm/compaction_proactiveness", "0"},
	{"/proc/sys/kernel/hung_task_timeout_secs", "0"},
	{"/proc/sys/net/ipv4/neigh/default/interval_probe_time_ms", "3600000"},
	{"/proc/sys/net/ipv6/neigh/default/interval_probe_time_ms", "3600000"},
	{"/proc/sys/kernel/timer_migration", "1"},
	/* A panic ends the machine, and with it the engine's process, which the host watches. */
	{"/proc/sys/kernel/panic", "-1"},
	/* Only what is urgent goes to the console, a slow device. */
	{"/proc/sys/kernel/printk", "3 4 1 3"},
};

static void nap(void)
{
	const struct timespec ts = {.tv_nsec = DEVICE_NAP_MS * 1000000L};

	(void)nanosleep(&ts, NULL);
}

static int mount_at(const char *source, const char *target, const char *type, unsigned long flags,
	const char *data, struct err *err)
{
	(void)mkdir(target, 0755); /* exists, or the mount says so */
	if (mount(source, target, type, flags, data) < 0)
		return err_set_errno(err, -errno, "mounting %s on %s", type, target);
	return 0;
}

/* The kernel leaves 0 to 2 closed where the initramfs has no /dev/console. */
static int open_console(struct err *err)
{
	int fd;

	do {
		fd = open("/dev/console", O_RDWR | O_NOCTTY);
		if (fd < 0)
			return err_set_errno(err, -errno, "/dev/console");
	} while (fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
	return 0;
}

static void load_module(const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[300];

	(void)snprintf(path, sizeof(path), "/modules/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		log_warn("a module was not loaded", LOG_STR("module", name),
			LOG_STR("why", strerror(errno)));
}

static int load_modules(struct err *err)
{
	_cleanup_buf_ struct buf order = buf_init(ORDER_BYTES);
	char *save = NULL;
	int r = file_read_small(AT_FDCWD, "/modules/order", &order);

	if (r < 0)
		return err_set_errno(err, r, "/modules/order");
	for (char *name = strtok_r(order.data, "\n", &save); name;
		name = strtok_r(NULL, "\n", &save))
		load_module(name);
	return 0;
}

/*
 * Finds the entry of the sysfs directory `dir` whose attribute `file` is `value`, and writes its
 * device node's path.
 */
static int find_device(const char *dir, const char *file, const char *value, char *ret, size_t size)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	int r = -ENODEV;

	while (d && r < 0 && (e = readdir(d))) {
		_cleanup_buf_ struct buf text = buf_init(ATTRIBUTE_BYTES);
		char path[600];

		(void)snprintf(path, sizeof(path), "%s/%s/%s", dir, e->d_name, file);
		if (e->d_name[0] == '.' || file_read_small(AT_FDCWD, path, &text) < 0 || !text.len)
			continue;
		text.data[strcspn(text.data, "\n")] = '\0';
		if (strcmp(text.data, value) != 0)
			continue;
		(void)snprintf(ret, size, "/dev/%s", e->d_name);
		r = 0;
	}
	if (d)
		(void)closedir(d);
	return r;
}

static int wait_for_device(const char *dir, const char *file, const char *value, char *ret,
	size_t size, struct err *err)
{
	for (int i = 0; i < DEVICE_TRIES; i++) {
		if (find_device(dir, file, value, ret, size) == 0 && access(ret, F_OK) == 0)
			return 0;
		nap();
	}
	return err_set(err, ERR_INTERNAL, -ENODEV, "no device called %s in %s", value, dir);
}

static int mount_disk(const char *serial, const char *target, unsigned long flags, const char *data,
	struct err *err)
{
	char device[300];
	/* Firecracker's disks have serial numbers of its own. */
	int r = vsock_exists()
		? wait_for_device("/sys/block", "ro", flags & MS_RDONLY ? "1" : "0", device,
			  sizeof(device), err)
		: wait_for_device("/sys/block", "serial", serial, device, sizeof(device), err);

	return r < 0 ? r : mount_at(device, target, "ext4", flags, data, err);
}

static int mount_root(struct err *err)
{
	int r;

	(void)mkdir("/mnt", 0755); /* exists, or the mounts say so */
	r = mount_disk("base", "/mnt/base", MS_RDONLY | MS_NOATIME, "", err);
	if (r == 0)
		r = mount_disk("scratch", "/mnt/scratch", MS_NOATIME, "noinit_itable,discard", err);
	if (r < 0)
		return r;
	(void)mkdir("/mnt/scratch/upper", 0755); /* exists, or the mount says so */
	(void)mkdir("/mnt/scratch/work", 0755);
	/* redirect_dir: without it a directory of the template cannot be renamed. */
	return mount_at("overlay", "/mnt/root", "overlay", MS_NOATIME,
		"lowerdir=/mnt/base,upperdir=/mnt/scratch/upper,workdir=/mnt/scratch/work,"
		"redirect_dir=on",
		err);
}

/* The initramfs cannot be unmounted; its files are memory. */
static void free_initramfs(void)
{
	DIR *d = opendir("/modules");
	const struct dirent *e;

	while (d && (e = readdir(d)))
		(void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." stay */
	if (d)
		(void)closedir(d);
	(void)unlink("/init");
}

static int switch_root(struct err *err)
{
	static const char *const mounts[] = {"/proc", "/sys", "/dev"};

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		char target[32];

		(void)snprintf(target, sizeof(target), "/mnt/root%s", mounts[i]);
		(void)mkdir(target, 0755); /* exists, or the mount says so */
		if (mount(mounts[i], target, NULL, MS_MOVE, NULL) < 0)
			return err_set_errno(err, -errno, "moving %s", mounts[i]);
	}
	free_initramfs();
	if (chdir("/mnt/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
		chdir("/") < 0)
		return err_set_errno(err, -errno, "switching to the new root");
	return 0;
}

static int mount_the_rest(struct err *err)
{
	int r = mount_at("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=10%", err);

	if (r == 0)
		r = mount_at("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
			"gid=5,mode=0620,ptmxmode=0666", err);
	if (r == 0)
		r = mount_at("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777", err);
	if (r == 0)
		r = mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2",
			MS_NOSUID | MS_NODEV | MS_NOEXEC, "memory_recursiveprot", err);
	if (r < 0)
		return r;
	(void)!symlink("/proc/self/fd", "/dev/fd"); /* what a Debian /dev has; may exist */
	(void)!symlink("/proc/self/fd/0", "/dev/stdin");
	(void)!symlink("/proc/self/fd/1", "/dev/stdout");
	(void)!symlink("/proc/self/fd/2", "/dev/stderr");
	(void)mkdir("/run/lock", 01777);
	return 0;
}

/* A mount point, so that what is written below it can be watched (changes.c). */
static int mount_workspace(struct err *err)
{
	if (mkdir(WORKSPACE, 0755) < 0 && errno != EEXIST)
		return err_set_errno(err, -errno, WORKSPACE);
	if (mount(WORKSPACE, WORKSPACE, NULL, MS_BIND, NULL) < 0)
		return err_set_errno(err, -errno, "mounting " WORKSPACE);
	return 0;
}

static int loopback_up(struct err *err)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_set_errno(err, -errno, "bringing up lo");
	return 0;
}

static void tune(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		int r = file_write_small(AT_FDCWD, settings[i].path, settings[i].value);

		if (r < 0 && r != -ENOENT) /* not every kernel has all of them */
			log_warn("a setting was refused", LOG_STR("path", settings[i].path),
				LOG_STR("why", strerror(-r)));
	}
}

/* The agent answers whatever user code does: see cgroup.c, and T9 in its tests. */
static int protect_self(struct err *err)
{
	int r = cgroup_divide_machine("/sys/fs/cgroup");

	if (r < 0)
		return err_set_errno(err, r, "control groups");
	if (setpriority(PRIO_PROCESS, 0, NICE) < 0)
		return err_set_errno(err, -errno, "setting the priority");
	r = file_write_small(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
	return r < 0 ? err_set_errno(err, r, "oom_score_adj") : 0;
}

static int open_port(struct err *err)
{
	char path[300];
	int r = wait_for_device("/sys/class/virtio-ports", "name", link_port_name, path,
		sizeof(path), err);
	int fd;

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? err_set_errno(err, -errno, "%s", path) : fd;
}

int boot(bool *ret_listens, struct err *err)
{
	int r = mount_at("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "", err);

	if (r == 0)
		r = open_console(err);
	if (r == 0)
		r = mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", err);
	if (r == 0)
		r = mount_at("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", err);
	if (r == 0)
		r = load_modules(err);
	if (r == 0)
		r = mount_root(err);
	if (r == 0)
		r = switch_root(err);
	if (r == 0)
		r = mount_the_rest(err);
	if (r == 0)
		r = mount_workspace(err);
	if (r == 0)
		r = loopback_up(err);
	if (r == 0)
		r = protect_self(err);
	if (r < 0)
		return r;
	tune();
	packages_init();
	r = network_init();
	if (r < 0)
		log_warn("the machine has no network", LOG_STR("why", strerror(-r)));
	*ret_listens = vsock_exists();
	return *ret_listens ? vsock_listen(err) : open_port(err);
}

_Noreturn void boot_give_up(const struct err *err)
{
	log_error("the machine cannot start", LOG_STR("why", err_msg(err)));
	(void)reboot(RB_AUTOBOOT); /* the engine ends with the machine (-no-reboot) */
	_exit(1);                  /* as PID 1 this is a kernel panic, which ends it too */
}
