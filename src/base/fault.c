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
	_cleanup_free_ char *list = strdup(wanted ? wanted : "");
	char *save = NULL;

	if (!list)
		abort();
	for (char *item = strtok_r(list, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		char *fifo = strchr(item, '=');

		if (fifo)
			*fifo++ = '\0';
		if (strcmp(item, name) != 0)
			continue;
		if (fifo)
			hold(fifo);
		else
			(void)kill(getpid(), SIGKILL); /* always allowed */
	}
}
#endif
