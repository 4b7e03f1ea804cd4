/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: finds the command, and turns its failure into a message and an exit status. */
#include "cli/cli.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/term.h"

enum {
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_INTERRUPTED = 130, /* as shells have it for SIGINT */
};

static const struct cli_command builtin[] = {
	{NULL, "run", "run code in a new sandbox", cmd_run},
	{"sandbox", "create", "create a sandbox", cmd_sandbox_create},
	{"sandbox", "list", "list sandboxes", cmd_sandbox_list},
	{"sandbox", "get", "show a sandbox", cmd_sandbox_get},
	{"sandbox", "exec", "run a command in a sandbox", cmd_sandbox_exec},
	{"sandbox", "ssh", "open a shell in a sandbox", cmd_sandbox_ssh},
	{"sandbox", "ps", "list the commands in the background", cmd_sandbox_ps},
	{"sandbox", "logs", "show what commands have written", cmd_sandbox_logs},
	{"sandbox", "events", "show what happened to a sandbox", cmd_sandbox_events},
	{"sandbox", "cp", "copy a file into a sandbox or out of it", cmd_sandbox_cp},
	{"sandbox", "fork", "copy a sandbox as it is", cmd_sandbox_fork},
	{"sandbox", "network", "show or change what a sandbox may reach", cmd_sandbox_network},
	{"sandbox", "pause", "stop a sandbox where it is", cmd_sandbox_pause},
	{"sandbox", "resume", "let a paused sandbox go on", cmd_sandbox_resume},
	{"sandbox", "hibernate", "put a sandbox away to the disk", cmd_sandbox_hibernate},
	{"sandbox", "wake", "bring a hibernated sandbox back", cmd_sandbox_wake},
	{"sandbox", "rm", "delete sandboxes", cmd_sandbox_rm},
	{NULL, "ports", "list the ports of a sandbox", cmd_ports},
	{NULL, "port-forward", "reach ports of a sandbox as ports of this machine",
		cmd_port_forward},
	{"snapshot", "create", "keep a sandbox as it is now", cmd_snapshot_create},
	{"snapshot", "list", "list snapshots", cmd_snapshot_list},
	{"snapshot", "export", "write a snapshot to one file", cmd_snapshot_export},
	{"snapshot", "import", "read such a file", cmd_snapshot_import},
	{"snapshot", "rm", "delete snapshots", cmd_snapshot_rm},
	{"template", "list", "list templates", cmd_template_list},
	{"template", "rm", "delete a template", cmd_template_rm},
	{NULL, "mcp", "serve the Model Context Protocol on stdin and stdout", cmd_mcp},
	{NULL, "gc", "delete what nobody needs any more", cmd_gc},
	{NULL, "engines", "show what can run sandboxes here", cmd_engines},
	{NULL, "version", "show the versions of this program and the daemon", cmd_version},
};

/* All commands: ours, then main.c's. */
struct table {
	const struct cli_command *extra; /* borrowed */
	size_t n_extra;
};

static const struct cli_command *row(const struct table *table, size_t i)
{
	if (i < ARRAY_SIZE(builtin))
		return &builtin[i];
	i -= ARRAY_SIZE(builtin);
	return i < table->n_extra ? &table->extra[i] : NULL;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static const struct cli_command *find(const struct table *table, const char *group,
	const char *name)
{
	const struct cli_command *command;

	for (size_t i = 0; (command = row(table, i)); i++) {
		if (same(command->group, group) && strcmp(command->name, name) == 0)
			return command;
	}
	return NULL;
}

static bool is_group(const struct table *table, const char *word)
{
	const struct cli_command *command;

	for (size_t i = 0; (command = row(table, i)); i++) {
		if (same(command->group, word))
			return true;
	}
	return false;
}

static void list_commands(FILE *f, const struct table *table, const char *group, bool all)
{
	const struct cli_command *command;

	for (size_t i = 0; (command = row(table, i)); i++) {
		const char *prefix = command->group ? command->group : "";

		if (all || same(command->group, group))
			(void)fprintf(f, "  %s%s%-*s  %s\n", prefix, *prefix ? " " : "",
				(int)(18 - strlen(prefix) - (*prefix ? 1 : 0)), command->name,
				command->summary);
	}
}

static void print_overview(FILE *f, const struct table *table)
{
	(void)fputs("pandastack runs untrusted code in microVMs.\n\n"
		    "usage: pandastack COMMAND [ARGUMENT]...\n\n"
		    "Commands:\n",
		f);
	list_commands(f, table, NULL, true);
	(void)fputs("\nFirst steps:\n"
		    "  pandastack template build code-interpreter\n"
		    "  pandastack serve &\n"
		    "  pandastack run -c 'print(6 * 7)'\n\n"
		    "Environment:\n"
		    "  PANDASTACK_API, PANDASTACK_API_KEY  where the daemon is, and the key; else "
		    "from\n"
		    "                                      ~/.config/pandastack/config.json\n"
		    "  NO_COLOR                            no colours\n\n"
		    "More about a command: pandastack help COMMAND\n",
		f);
}

static void print_group(FILE *f, const struct table *table, const char *group)
{
	(void)fprintf(f, "usage: pandastack %s COMMAND [ARGUMENT]...\n\nCommands:\n", group);
	list_commands(f, table, group, false);
	(void)fprintf(f, "\nMore about a command: pandastack help %s COMMAND\n", group);
}

/* The UTF-8 that the API speaks, also where the environment says nothing. */
static void set_locale(void)
{
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_CTYPE, "C.UTF-8"); /* without it other letters show as '?' */
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
	struct err err = {0};
	int r = command->fn(argc, argv, &err);

	if (r >= 0)
		return r;
	if (r == -ECANCELED)
		return STATUS_INTERRUPTED;
	if (r != -EPIPE)
		term_say("%s", err_msg(&err));
	return err_cli_exit(err.kind);
}

static int unknown(const char *word, const char *group)
{
	term_say("'%s' is no command; see: pandastack help%s%s", word, group ? " " : "",
		group ? group : "");
	return STATUS_USAGE;
}

/* argv[0] is the first word behind "pandastack". */
static int dispatch(const struct table *table, int argc, char **argv)
{
	const struct cli_command *command = find(table, NULL, argv[0]);

	if (command)
		return run_command(command, argc, argv);
	if (!is_group(table, argv[0]))
		return unknown(argv[0], NULL);
	if (argc == 1 || same(argv[1], "--help") || same(argv[1], "-h")) {
		print_group(argc == 1 ? stderr : stdout, table, argv[0]);
		return argc == 1 ? STATUS_USAGE : 0;
	}
	command = find(table, argv[0], argv[1]);
	if (!command)
		return unknown(argv[1], argv[0]);
	return run_command(command, argc - 1, argv + 1);
}

/* "help sandbox cp" is "sandbox cp --help". */
static int help(const struct table *table, int argc, char **argv)
{
	char flag[] = "--help";
	char *words[] = {argc > 0 ? argv[0] : flag, argc > 1 ? argv[1] : flag, flag, NULL};

	if (argc == 0) {
		print_overview(stdout, table);
		return 0;
	}
	return dispatch(table, MIN(argc, 2) + 1, words);
}

static int run(const struct table *table, int argc, char **argv)
{
	if (argc < 2) {
		print_overview(stderr, table);
		return STATUS_USAGE;
	}
	if (same(argv[1], "help"))
		return help(table, argc - 2, argv + 2);
	if (same(argv[1], "--help") || same(argv[1], "-h"))
		return help(table, 0, NULL);
	if (same(argv[1], "--version"))
		return dispatch(table, 1, (char *[]){(char[]){"version"}, NULL});
	return dispatch(table, argc - 1, argv + 1);
}

int cli_main(int argc, char **argv, const struct cli_command *extra, size_t n_extra)
{
	const struct table table = {extra, n_extra};
	int status;

	set_locale();
	status = run(&table, argc, argv);
	if (fflush(stdout) == EOF && errno != EPIPE) {
		term_say("cannot write: %s", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}
