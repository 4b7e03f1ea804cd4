/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent: wiring. As PID 1 it boots the machine; with --fd it is an ordinary process. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/parse.h"
#include "boot.h"
#include "exec.h"
#include "job.h"
#include "ops.h"
#include "process.h"
#include "session.h"
#include "vsock.h"

static const char usage[] =
	"usage: agent --fd N [--root DIR] [--cgroup DIR] [--python FILE] [--runtime DIR]\n"
	"Serves the guest link on descriptor N as an ordinary process (for tests).\n"
	"As PID 1 it takes no options and boots the machine.\n";

static void on_open(struct link *link, struct stream *s, const json_t *request)
{
	ops_open(container_of(link, struct agent, link), s, request);
}

static void on_hangup(struct link *link)
{
	struct agent *agent = container_of(link, struct agent, link);

	agent->stop = !agent->config.init; /* a machine waits for the next host */
}

static void on_orphan(struct reaper *reaper)
{
	cgroup_sweep(&container_of(reaper, struct agent, reaper)->cgroups);
}

static int agent_init(struct agent *agent, int link_fd)
{
	int r = loop_init(&agent->loop);

	list_init(&agent->commands);
	list_init(&agent->processes);
	output_log_init(&agent->log);
	list_init(&agent->jobs);
	list_init(&agent->sessions);
	runtime_init(&agent->runtime, agent);
	identity_init(agent);
	if (r == 0)
		r = reaper_init(&agent->reaper, &agent->loop, on_orphan);
	if (r == 0)
		r = cgroup_tree_init(&agent->cgroups, agent->config.cgroup);
	memory_guard_init(&agent->memory_guard, &agent->loop, &agent->reaper,
		r == 0 ? agent->cgroups.dir_fd : -1);
	if (r == 0)
		r = link_open(&agent->link, &agent->loop, link_fd, on_open, on_hangup);
	return r;
}

/* Only for ordinary processes, so that the sanitizers see that nothing is left. */
static void agent_done(struct agent *agent)
{
	link_done(&agent->link);
	session_free_all(agent);
	exec_kill_all(agent);
	process_free_all(agent);
	output_log_done(&agent->log);
	job_kill_all(agent);
	runtime_done(&agent->runtime);
	identity_done(agent);
	memory_guard_done(&agent->memory_guard);
	cgroup_tree_done(&agent->cgroups);
	reaper_done(&agent->reaper);
	loop_done(&agent->loop);
	json_decref(agent->env);
	json_decref(agent->packages);
}

static int serve(struct agent *agent)
{
	int r = 0;

	while (r == 0 && !agent->stop) {
		link_flush(&agent->link);
		r = loop_poll(&agent->loop);
	}
	return r;
}

static _Noreturn void run_init(struct agent *agent)
{
	static struct vsock vsock;
	struct err err;
	bool listens;
	int fd = boot(&listens, &err), r;

	if (fd < 0)
		boot_give_up(&err);
	agent->config.init = true;
	agent->config.cgroup = boot_cgroup_path;
	network_diag_init(&agent->diag);
	r = agent_init(agent, listens ? -1 : fd);
	if (r == 0 && listens)
		r = vsock_serve(&vsock, &agent->loop, fd, &agent->link);
	if (r == 0)
		r = serve(agent);
	(void)err_set_errno(&err, r, "the agent cannot go on");
	boot_give_up(&err);
}

static int parse_options(int argc, char *argv[], struct agent_config *config, int *ret_fd)
{
	static const struct option options[] = {
		{"fd", required_argument, NULL, 'f'},
		{"root", required_argument, NULL, 'r'},
		{"cgroup", required_argument, NULL, 'c'},
		{"python", required_argument, NULL, 'p'},
		{"runtime", required_argument, NULL, 't'},
		{0},
	};
	int64_t fd = -1;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'f':
			if (parse_i64(optarg, 3, 1 << 20, &fd) < 0)
				return -EINVAL;
			break;
		case 'r':
			config->root = optarg;
			break;
		case 'c':
			config->cgroup = optarg;
			break;
		case 'p':
			config->python = optarg;
			break;
		case 't':
			config->runtime = optarg;
			break;
		default:
			return -EINVAL;
		}
	}
	*ret_fd = (int)fd;
	return fd < 0 || optind < argc ? -EINVAL : 0;
}

int main(int argc, char *argv[])
{
	static struct agent agent = {
		.config =
			{
				.root = "",
				.python = "/opt/venv/bin/python",
				.runtime = "/usr/lib/pandastack/runtime",
			},
		.network_up = true, /* boot() did that */
	};
	int fd, r;

	(void)signal(SIGPIPE, SIG_IGN);
	if (getpid() == 1)
		run_init(&agent);
	if (parse_options(argc, argv, &agent.config, &fd) < 0) {
		(void)fputs(usage, stderr);
		return 2;
	}
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* Linux 3.4 */
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		log_error("the link's descriptor is not open");
		return 1;
	}
	r = agent_init(&agent, fd);
	if (r == 0)
		r = serve(&agent);
	if (r < 0)
		log_error("the agent cannot go on", LOG_STR("why", strerror(-r)));
	agent_done(&agent);
	return r < 0;
}
