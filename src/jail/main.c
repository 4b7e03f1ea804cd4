/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pandastack-jail: runs the program of a machine where it sees little else. An engine starts it; it is not for people.
 *
 *	pandastack-jail [--join CGROUP]… [--card] [--own-ids] [--read PATH | --write PATH]… PROGRAM ARGUMENT…
 *	pandastack-jail --card --check
 *
 * Theory of operation
 * -------------------
 * The program works in this one's folder, which it can't write to, and finds there and elsewhere what is named, under the names that
 * these things have outside: what it is told needs no translation, and where there is no jail to be had it is told the same. It is
 * this process still, so whoever started it waits for that. The steps, each of which needs what the next one gives up:
 *
 *	main.c    into its cgroups, which whoever started it has made (--join)
 *	ids.c     what is named is given to ids that nobody else has (root with --own-ids)
 *	walls.c   namespaces of its own
 *	card.c    a network card in them (--card)
 *	walls.c   a root with nothing but what is named
 *	ids.c     no capabilities, these ids
 *
 * An ordinary user has all that within a user namespace, but for ids. Where the host allows none of these the program runs without a
 * jail, unless it is to have a card. `--check` says on stdout, with a status of 1, why it can have none.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "jail/card.h"
#include "jail/ids.h"
#include "jail/walls.h"

enum { STATUS_FAILED = 126 };

/* The first one is our folder, in which others may lie. */
static int add(struct walls *w, const char *path, bool writable, struct err *err)
{
	struct wall_hole *hole = &w->holes[w->n_holes];

	if (w->n_holes == ARRAY_SIZE(w->holes))
		return err_set(err, ERR_INVALID, -E2BIG, "too many paths");
	if (access(path, F_OK) < 0)
		return err_set_errno(err, -errno, "can't find %s", path);
	hole->path = path[0] == '/' ? xstrdup(path) : fs_join(w->holes[0].path, path);
	hole->writable = writable;
	w->n_holes++;
	return 0;
}

static int add_folder(struct walls *w, struct err *err)
{
	_cleanup_free_ char *path = getcwd(NULL, 0);

	return path ? add(w, path, false, err)
		    : err_set_errno(err, -errno, "can't find this folder");
}

/* As execvp(3) does; without symbolic links, which lead nowhere in a jail. NULL: there is none. */
static char *find_program(const char *name)
{
	_cleanup_free_ char *dirs = xstrdup(getenv("PATH"));
	char *save = NULL;

	if (strchr(name, '/'))
		return realpath(name, NULL);
	for (char *dir = dirs ? strtok_r(dirs, ":", &save) : NULL; dir;
		dir = strtok_r(NULL, ":", &save)) {
		_cleanup_free_ char *path = fs_join(dir, name);

		if (access(path, X_OK) == 0)
			return realpath(path, NULL);
	}
	errno = ENOENT;
	return NULL;
}

/* By the folder of a cgroup. */
static int join(const char *folder, struct err *err)
{
	_cleanup_free_ char *path = fs_join(folder, "cgroup.procs");
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fs_write_all(fd, "0", 1);

	return r < 0 ? err_set_errno(err, r, "can't join the cgroup %s", folder) : 0;
}

struct options {
	bool card, own_ids, check;
};

static int parse(int argc, char **argv, struct options *o, struct walls *w, struct err *err)
{
	static const struct option known[] = {
		{"card", no_argument, NULL, 'c'},
		{"join", required_argument, NULL, 'j'},
		{"own-ids", no_argument, NULL, 'i'},
		{"read", required_argument, NULL, 'r'},
		{"write", required_argument, NULL, 'w'},
		{"check", no_argument, NULL, 'k'},
		{NULL, 0, NULL, 0},
	};
	int c, r = add_folder(w, err);

	while (r == 0 && (c = getopt_long(argc, argv, "+", known, NULL)) >= 0) {
		o->card |= c == 'c';
		o->own_ids |= c == 'i';
		o->check |= c == 'k';
		if (c == '?')
			r = err_set(err, ERR_INVALID, -EINVAL, "it is started by an engine");
		else if (c == 'j')
			r = join(optarg, err);
		else if (c == 'r' || c == 'w')
			r = add(w, optarg, c == 'w', err);
	}
	if (r == 0 && !o->check && optind == argc)
		r = err_set(err, ERR_INVALID, -EINVAL, "no program is named");
	return r;
}

static int build(const struct options *o, struct walls *w, struct err *err)
{
	struct ids ids;
	int r = ids_choose(o->own_ids, w, &ids, err);

	if (r == 0)
		r = walls_enter(err);
	/* An ordinary user of a host that has no namespaces for them has no walls. */
	if (r == -EPERM && !o->card && geteuid() != 0)
		return ids_take(&ids, err);
	if (r == 0 && o->card && (r = card_make(ids.uid, err)) < 0 && !o->check)
		(void)err_wrap(err, "no network card for the machine");
	if (r == 0 && !o->check)
		r = walls_build(w, &ids, o->card, err);
	return r == 0 ? ids_take(&ids, err) : r;
}

int main(int argc, char **argv)
{
	CLEANUP(walls_done) struct walls w = {0};
	_cleanup_free_ char *program = NULL;
	struct options o = {0};
	struct err err = {0};
	int r = parse(argc, argv, &o, &w, &err);

	if (r == 0 && !o.check) {
		program = find_program(argv[optind]);
		r = program ? add(&w, program, false, &err)
			    : err_set_errno(&err, -errno, "can't find %s", argv[optind]);
	}
	if (r == 0)
		r = build(&o, &w, &err);
	if (o.check) {
		(void)fputs(r < 0 ? err_msg(&err) : "", stdout);
		return r < 0;
	}
	if (r == 0) {
		(void)execv(program, argv + optind);
		r = err_set_errno(&err, -errno, "can't start %s", program);
	}
	(void)fprintf(stderr, "pandastack-jail: %s\n", err_msg(&err));
	return STATUS_FAILED;
}
