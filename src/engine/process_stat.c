/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about a process. */
#include "engine/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"

/* Fields, as the manual counts them. */
enum {
	STATE = 3, /* the first behind the name */
	UTIME = 14,
	STIME = 15,
	THREADS = 20,
	STARTED = 22,
	VSZ = 23,
	RSS = 24,
	FIELDS_END,
};

static int parse(char *text, struct process_stat *ret)
{
	uint64_t fields[FIELDS_END] = {0};
	char *p = strrchr(text, ')'); /* the command's name may hold anything */
	char *save = NULL;

	if (!p)
		return -EPROTO;
	p = strtok_r(p + 1, " ", &save);
	for (int i = STATE; i < FIELDS_END; i++, p = strtok_r(NULL, " ", &save)) {
		if (!p)
			return -EPROTO;
		(void)parse_u64(p, 0, UINT64_MAX, &fields[i]); /* some are no numbers */
	}
	*ret = (struct process_stat){
		.started_ticks = fields[STARTED],
		.cpu_ticks = fields[UTIME] + fields[STIME],
		.threads = fields[THREADS],
		.vsz_bytes = fields[VSZ],
		.rss_pages = fields[RSS],
	};
	return 0;
}

int process_stat_read(pid_t pid, struct process_stat *ret)
{
	_cleanup_close_ int fd = -1;
	char text[1024];
	ssize_t n;

	(void)snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	return parse(text, ret);
}
