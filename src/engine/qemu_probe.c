/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a QEMU here that we can use, and with which acceleration? */
#include "engine/qemu_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/spawn.h"
#include "engine/kvm_probe.h"
#include "engine/qemu_version.h"
#include "engine/tsc.h"

#define PACKAGE "qemu-system-x86"

enum { VERSION_MIN = 702 }; /* 7.2: Debian 12's, the oldest that was tried */

/* Reads what a program prints, up to size - 1 bytes. */
static int read_output(const char *const argv[], char *out, size_t size, struct err *err)
{
	_cleanup_close_ int rd = -1, wr = -1, pidfd = -1;
	struct spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .n_fds = 3};
	int pipe_fds[2];
	size_t len = 0;
	ssize_t n;
	pid_t pid;
	int r;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set_errno(err, -errno, "can't make a pipe");
	rd = pipe_fds[0];
	wr = pipe_fds[1];
	sp.fds[STDOUT_FILENO] = wr;
	r = spawn_start(&sp, &pid, &pidfd, err);
	if (r < 0)
		return r;
	(void)close(steal_fd(&wr));
	while (len < size - 1 && (n = read(rd, out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	(void)close(steal_fd(&rd)); /* whoever says more does not wait for us */
	return spawn_wait(pidfd) == 0 ? 0 : err_set(err, ERR_ENGINE, -EIO, "%s failed", argv[0]);
}

void qemu_probe(struct engine_info *ret)
{
	static const char *const argv[] = {QEMU_PROGRAM, "--version", NULL};
	struct err err = {0};
	char text[512];
	int version;

	*ret = (struct engine_info){.name = "qemu", .isolation = "microvm", .accel = ACCEL_TCG};
	if (read_output(argv, text, sizeof(text), &err) < 0) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"QEMU is missing (" QEMU_PROGRAM "): sudo apt-get install " PACKAGE);
		return;
	}
	version = qemu_parse_version(text, ret->version, sizeof(ret->version));
	if (version < VERSION_MIN) {
		(void)snprintf(ret->why, sizeof(ret->why),
			"QEMU %s is too old (7.2 at least): install a newer " PACKAGE,
			version ? ret->version : "of unknown version");
		return;
	}
	ret->available = true;
	if (kvm_probe(ret->why, sizeof(ret->why)))
		ret->accel = ACCEL_KVM;
	/* Also where there is KVM: templates that were baked for software emulation run here too. */
	ret->tsc_khz = tsc_measure_khz();
}
