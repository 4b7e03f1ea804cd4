/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#ifdef PANDASTACK_FAULTS
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

static void hold(const char *fifo)
{
	_cleanup_close_ int fd =
		open(fifo, O_RDONLY | O_CLOEXEC); /* when it is opened for writing */
	char c;

	while (fd >= 0 && read(fd, &c, 1) > 0)
		;
}

void fault_point(const char *name)
{
	const char *wanted = getenv("PANDASTACK_FAULT");
	size_t len = strlen(name);

	if (!wanted || strncmp(wanted, name, len) != 0)
		return;
	if (wanted[len] == '=')
		hold(wanted + len + 1);
	else if (!wanted[len])
		(void)kill(getpid(), SIGKILL); /* always allowed */
}
#endif
