/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals of commands. */
/*
 * The slave is opened by the master (TIOCGPTPEER), not by a name, and never becomes the terminal of the agent itself, which leads a
 * session as PID 1.
 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/macros.h"

static bool size_from_json(const json_t *size, struct winsize *ret)
{
	json_int_t rows = json_integer_value(json_object_get(size, "rows"));
	json_int_t cols = json_integer_value(json_object_get(size, "cols"));

	if (rows < 1 || rows > UINT16_MAX || cols < 1 || cols > UINT16_MAX)
		return false;
	*ret = (struct winsize){.ws_row = (uint16_t)rows, .ws_col = (uint16_t)cols};
	return true;
}

int terminal_open(const json_t *size, uid_t owner, int *ret_ours, int *ret_theirs, struct err *err)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	struct winsize ws;

	if (!size_from_json(size, &ws))
		return err_set(err, ERR_INVALID, -EINVAL,
			"\"pty\" needs \"rows\" and \"cols\" from 1 to %d", UINT16_MAX);
	ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (ours < 0 || unlockpt(ours) < 0)
		return err_set_errno(err, -errno, "opening a terminal");
	theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC); /* Linux 4.13 */
	if (theirs < 0 || fchown(theirs, owner, (gid_t)-1) < 0 || ioctl(ours, TIOCSWINSZ, &ws) < 0)
		return err_set_errno(err, -errno, "setting up a terminal");
	*ret_ours = steal_fd(&ours);
	*ret_theirs = steal_fd(&theirs);
	return 0;
}

void terminal_resize(int ours_fd, const json_t *size)
{
	struct winsize ws;

	if (size_from_json(size, &ws))
		(void)ioctl(ours_fd, TIOCSWINSZ, &ws); /* cannot fail on a master */
}
