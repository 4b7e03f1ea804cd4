/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine's program says of itself. */
#include "engine/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/spawn.h"
#include "base/str.h"

int program_parse_version(const char *text, const char *lead, char *version, size_t size)
{
	uint64_t major = 0, minor = 0;
	char part[8];
	size_t n;

	if (!str_starts_with(text, lead))
		return 0;
	text += strlen(lead);
	n = strspn(text, "0123456789.");
	if (n == 0 || n >= size)
		return 0;
	memcpy(version, text, n);
	version[n] = '\0';
	n = strcspn(version, ".");
	if (version[n] != '.' || n >= sizeof(part))
		return 0;
	memcpy(part, version, n);
	part[n] = '\0';
	if (parse_u64(part, 0, 99, &major) < 0)
		return 0;
	text = version + n + 1;
	n = strcspn(text, ".");
	if (n == 0 || n >= sizeof(part))
		return 0;
	memcpy(part, text, n);
	part[n] = '\0';
	return parse_u64(part, 0, 99, &minor) < 0 ? 0 : (int)(major * 100 + minor);
}

int program_output(const char *const argv[], char *out, size_t size, struct err *err)
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
