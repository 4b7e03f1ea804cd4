/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about a process, from /proc/PID/stat (proc_pid_stat(5)). */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct process_stat {
	uint64_t started_ticks; /* since boot; with the pid, it names one process */
	uint64_t cpu_ticks;     /* of all its threads, user and system */
	uint64_t threads;
	uint64_t vsz_bytes;
	uint64_t rss_pages;
};

/* -ESRCH when there is none, -EPROTO. */
int process_stat_read(pid_t pid, struct process_stat *ret);
