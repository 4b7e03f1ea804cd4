/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a template.
 *
 * Theory of operation
 * -------------------
 * Two digests decide what must be made. The *root version* covers the definition, the scripts that turn it
 * into a file system and the root version of the template below; the *sources* cover that, the agent, the
 * kernel runtime, and engine, accelerator and CPU model. A root file system takes minutes (packages), a first
 * boot seconds, so they are kept apart:
 *
 *	<templates>/<name>/root/    rootfs.ext4 rootfs.tar.zst kernel modules/ packages.lock version
 *	<templates>/<name>/<version>/   manifest.json rootfs.ext4 kernel (hard links) initrd scratch.ext4
 *	                                memory devices
 *	<templates>/<name>/current  → <version>
 *	<templates>/<name>/build.log
 *	<templates>/<name>/.lock, .build/
 *
 * States of machines are differences from a version's memory, and no boot is like another, even of the same sources: so a
 * version's name is random, and means one memory for ever. Whoever holds it keeps it when there is a newer one.
 *
 * `.lock` is held while building, so a .build folder that is found belongs to a build that died.
 */
#include "bake/build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "bake/cancel.h"
#include "bake/definition.h"
#include "bake/digest.h"
#include "bake/progress.h"
#include "bake/share.h"
#include "bake/snapshot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/spawn.h"
#include "base/str.h"
#include "core/template.h"

enum { STEP_LINE_MAX = 256 };

struct build {
	const struct build_options *options;
	struct template_set *set; /* borrowed; where it goes */
	struct share share;
	struct progress *progress;
	struct definition *def;
	const struct engine_ops *ops;
	struct engine_info engine;
	char *dir;     /* <templates>/<name> */
	char *work;    /* <dir>/.build */
	char *root;    /* <dir>/root */
	bool keep_tar; /* others are, or are likely to be, built on it */
	int lock_fd;
	int log_fd;
	char root_version[DIGEST_TEXT_SIZE];
	char sources[DIGEST_TEXT_SIZE];
	char version[DIGEST_TEXT_SIZE];
};

static void build_done(struct build *b)
{
	if (b->lock_fd >= 0)
		(void)fs_remove_tree(b->work, NULL); /* best effort: the next build does it again */
	progress_free(b->progress);
	definition_free(b->def);
	share_done(&b->share);
	free(b->dir);
	free(b->work);
	free(b->root);
	cleanup_close(&b->lock_fd);
	cleanup_close(&b->log_fd);
}

/* ---- programs ---- */

/* Runs a program with its output in the log; `on_line`, if set, gets each line of its stdout. */
static int run(struct build *b, const char *const argv[], const char *cwd,
	void (*on_line)(struct build *b, const char *line), struct err *err)
{
	_cleanup_close_ int rd = -1, wr = -1, pidfd = -1;
	struct spawn sp = {.argv = argv, .cwd = cwd, .fds = {-1, b->log_fd, b->log_fd}, .n_fds = 3};
	char line[STEP_LINE_MAX];
	FILE *lines = NULL;
	int fds[2], r, status;
	pid_t pid;

	if (on_line) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_set_errno(err, -errno, "can't make a pipe");
		rd = fds[0];
		wr = fds[1];
		sp.fds[1] = wr;
	}
	r = spawn_start(&sp, &pid, &pidfd, err);
	if (r < 0)
		return r;
	cancel_track(pidfd);
	if (on_line) {
		(void)close(steal_fd(&wr));
		lines = fdopen(steal_fd(&rd), "r");
	}
	while (lines && fgets(line, sizeof(line), lines)) {
		line[strcspn(line, "\n")] = '\0';
		on_line(b, line);
	}
	if (lines)
		(void)fclose(lines);
	status = spawn_wait(pidfd);
	cancel_track(-1);
	if (cancel_requested())
		return err_set(err, ERR_INTERNAL, -EINTR, "interrupted; nothing was changed");
	return status == 0 ? 0 : err_set(err, ERR_INTERNAL, -EIO, "%s failed", argv[0]);
}

/* The last line of the log, which says why. */
static void add_reason(struct build *b, struct err *err)
{
	_cleanup_free_ char *path = fs_join(b->dir, "build.log");
	char tail[1024], why[300], *start;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n;

	if (err->os == -EINTR || fd < 0)
		return;
	n = pread(fd, tail, sizeof(tail) - 1, MAX(end - (off_t)sizeof(tail) + 1, 0));
	if (n <= 0)
		return;
	while (n > 0 && tail[n - 1] == '\n')
		n--;
	tail[n] = '\0';
	start = strrchr(tail, '\n');
	start = start ? start + 1 : tail;
	(void)err_set(err, err->kind, err->os, "%s\n(the whole story: %s)",
		str_printable(why, sizeof(why), start, strlen(start)), path);
}

static void on_rootfs_line(struct build *b, const char *line)
{
	if (str_starts_with(line, "step "))
		progress_step(b->progress, line + strlen("step "));
}

/* ---- the root file system ---- */

static int make_root(struct build *b, const char *base_tar, struct err *err)
{
	_cleanup_free_ char *program = fs_join(b->share.templates, "build-rootfs");
	_cleanup_free_ char *out = fs_join(b->work, "root");
	_cleanup_free_ char *version_file = fs_join(out, "version");
	const char *argv[16] = {program, "--definition", b->def->dir, "--out", out};
	unsigned int n = 5;
	int r;

	if (base_tar) {
		argv[n++] = "--base-tar";
		argv[n++] = base_tar;
	} else {
		argv[n++] = "--none";
	}
	if (b->options->mirror) {
		argv[n++] = "--mirror";
		argv[n++] = b->options->mirror;
	}
	if (b->options->security_mirror) {
		argv[n++] = "--security-mirror";
		argv[n++] = b->options->security_mirror;
	}
	if (b->keep_tar)
		argv[n++] = "--keep-tar";
	r = fs_mkdirs(out, 0755, err);
	if (r == 0) {
		r = run(b, argv, NULL, on_rootfs_line, err);
		if (r < 0)
			add_reason(b, err);
	}
	if (r == 0)
		r = fs_write_atomic(version_file, b->root_version, strlen(b->root_version), 0644,
			err);
	if (r == 0)
		r = fs_remove_tree(b->root, err);
	if (r == 0 && rename(out, b->root) < 0)
		r = err_set_errno(err, -errno, "can't move %s", out);
	return r;
}

static bool root_is_current(const struct build *b)
{
	_cleanup_free_ char *path = fs_join(b->root, "version"), *text = NULL;
	_cleanup_free_ char *tar = fs_join(b->root, "rootfs.tar.zst");

	return (!b->keep_tar || access(tar, R_OK) == 0) &&
		fs_read(path, DIGEST_TEXT_SIZE, &text, NULL, NULL) == 0 &&
		strcmp(text, b->root_version) == 0;
}

/* ---- disks and initramfs ---- */

static int hard_link(const char *from_dir, const char *to_dir, const char *name, struct err *err)
{
	_cleanup_free_ char *from = fs_join(from_dir, name), *to = fs_join(to_dir, name);

	if (link(from, to) < 0)
		return err_set_errno(err, -errno, "can't link %s", from);
	return 0;
}

/*
 * The writable disk as a new sandbox finds it: an empty file system, without journal (a machine that dies
 * takes its disk with it) and with inode tables that are written when they are used.
 */
static int make_empty_disk(struct build *b, const char *dir, struct err *err)
{
	_cleanup_free_ char *path = fs_join(dir, "empty.ext4");
	char size[32];
	const char *const argv[] = {"mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0",
		"-E", "lazy_itable_init=1,nodiscard", path, size, NULL};

	(void)snprintf(size, sizeof(size), "%lluk", (unsigned long long)(b->def->disk_bytes >> 10));
	return run(b, argv, NULL, NULL, err);
}

/* The agent as /init, and the modules that it loads. */
static int make_initrd(struct build *b, const char *dir, struct err *err)
{
	_cleanup_free_ char *tree = fs_join(b->work, "initrd"), *init = fs_join(tree, "init");
	_cleanup_free_ char *modules = fs_join(b->root, "modules"),
			    *initrd = fs_join(dir, "initrd");
	const char *const copy[] = {"cp", "-r", "--", modules, tree, NULL};
	const char *const pack[] = {"sh", "-c",
		"find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet > \"$1\"", "sh", initrd,
		NULL};
	int r = fs_mkdirs(tree, 0755, err);

	if (r == 0)
		r = fs_clone(b->share.agent, init, 0755, err);
	if (r == 0)
		r = run(b, copy, NULL, NULL, err);
	if (r == 0)
		r = run(b, pack, tree, NULL, err);
	return r;
}

/* ---- the manifest ---- */

static int write_manifest(struct build *b, const struct machine_image *image,
	const struct snapshot_facts *facts, const char *dir, struct err *err)
{
	_cleanup_free_ char *path = fs_join(dir, "manifest.json"), *text = NULL;
	json_t *json = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:b, s:I}",
		"format", TEMPLATE_FORMAT, "name", b->def->name, "version", b->version, "sources",
		b->sources, "description", b->def->description, "engine", b->engine.name,
		"engine_version", b->engine.version, "accel", accel_name(image->accel), "cpu_model",
		image->cpu_model, "cpus", (int)image->cpus, "memory_bytes",
		(json_int_t)image->memory_bytes, "disk_bytes", (json_int_t)b->def->disk_bytes,
		"size_bytes", (json_int_t)fs_disk_usage(dir), "tsc_khz", (json_int_t)image->tsc_khz,
		"card", image->card, "built_ms", (json_int_t)clock_real_ms());

	if (image->accel == ACCEL_KVM)
		(void)json_object_set_new(json, "cpu", guest_cpu_to_json(&image->cpu));
	if (b->def->kernel)
		(void)json_object_set_new(json, "kernel", json_string(b->def->kernel));
	if (b->def->network)
		(void)json_object_set(json, "network", b->def->network);
	if (facts->languages)
		(void)json_object_set(json, "languages", facts->languages);
	text = json_dumps(json, JSON_INDENT(2));
	json_decref(json);
	if (!text)
		return err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	return fs_write_atomic(path, text, strlen(text), 0644, err);
}

/* Makes everything in `dir` reach the disk before it is renamed into place. */
static int sync_dir(const char *dir, struct err *err)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		return err_set_errno(err, -errno, "can't sync %s", dir);
	return 0;
}

/* ---- the whole ---- */

/* The folder of the machine that is baked. */
static char *work_vm_dir(const struct build *b)
{
	return fs_join(b->work, "vm");
}

static int bake(struct build *b, struct err *err)
{
	_cleanup_free_ char *out = fs_join(b->work, "out"), *vm_dir = work_vm_dir(b);
	const struct machine_image image = {
		.dir = out,
		.accel = b->engine.accel,
		.cpu_model = (char *)(uintptr_t)b->ops->cpu_models[b->engine.accel], /* only read */
		.cpu = b->engine.cpu,
		.cpus = b->def->cpus,
		.memory_bytes = b->def->memory_bytes,
		.tsc_khz = b->engine.accel == ACCEL_TCG ? b->engine.tsc_khz : 0,
		.card = engine_require(&b->engine, "network", NULL) == 0,
	};
	const struct snapshot_job job = {
		.ops = b->ops,
		.image = &image,
		.work_dir = vm_dir,
		.runtime_dir = b->def->kernel ? b->share.runtime : NULL,
		.progress = b->progress,
	};
	struct snapshot_facts facts = {0};
	int r = fs_mkdirs(out, 0755, err);

	progress_step(b->progress, "Making the initramfs and the writable disk");
	if (r == 0)
		r = hard_link(b->root, out, "rootfs.ext4", err);
	if (r == 0)
		r = hard_link(b->root, out, "kernel", err);
	if (r == 0)
		r = make_empty_disk(b, out, err);
	if (r == 0)
		r = make_initrd(b, out, err);
	if (r == 0)
		r = snapshot_take(&job, &facts, err);
	if (cancel_requested())
		r = err_set(err, ERR_INTERNAL, -EINTR, "interrupted; nothing was changed");
	if (r == 0)
		r = write_manifest(b, &image, &facts, out, err);
	json_decref(facts.languages);
	if (r == 0)
		r = sync_dir(out, err);
	return r;
}

/* Removes the version that was replaced, and any that a build left which died at this point, unless somebody holds it.
 * Machines that came from it have its files open. */
static int remove_others(const struct build *b, struct err *err)
{
	DIR *dir = opendir(b->dir);
	struct dirent *e;
	int r = 0;

	if (!dir)
		return err_set_errno(err, -errno, "can't read %s", b->dir);
	while (r == 0 && (e = readdir(dir))) {
		if (template_is_version(e->d_name) && strcmp(e->d_name, b->version) != 0)
			r = template_drop(b->dir, e->d_name, err);
		if (r == -EBUSY)
			r = 0;
	}
	(void)closedir(dir);
	return r;
}

static int set_current(const struct build *b, struct err *err)
{
	_cleanup_free_ char *link_new = fs_join(b->dir, ".current");
	_cleanup_free_ char *link = fs_join(b->dir, "current");

	(void)unlink(link_new); /* of a build that died here */
	if (symlink(b->version, link_new) < 0 || rename(link_new, link) < 0)
		return err_set_errno(err, -errno, "can't put %s into place", link);
	return 0;
}

static void name_version(struct build *b)
{
	uint8_t id[DIGEST_BYTES];

	randombytes_buf(id, sizeof(id));
	str_hex(b->version, id, sizeof(id));
}

/* Puts the result into place, then removes the version that it replaces. */
static int publish(struct build *b, struct err *err)
{
	_cleanup_free_ char *out = fs_join(b->work, "out"), *final = fs_join(b->dir, b->version);
	int r;

	if (rename(out, final) < 0)
		return err_set_errno(err, -errno, "can't put %s into place", final);
	r = set_current(b, err);
	return r == 0 ? remove_others(b, err) : r;
}

/* Takes a version for the result if it is as good as a new one. */
static bool take_version(struct build *b, const char *version)
{
	_cleanup_template_ struct template *t = NULL;

	if (template_load_version(b->set, b->def->name, version, &t, NULL) < 0 || !t->sources ||
		strcmp(t->sources, b->sources) != 0 ||
		template_check_engine(t, &b->engine, NULL) < 0)
		return false;
	(void)snprintf(b->version, sizeof(b->version), "%s", t->version);
	return true;
}

/* Whether there is a result already, which is the current version then: others are there because somebody holds them. */
static int find_made(struct build *b, bool *ret, struct err *err)
{
	DIR *dir;
	const struct dirent *e;

	*ret = take_version(b, "current");
	if (*ret)
		return 0;
	dir = opendir(b->dir);
	while (dir && !*ret && (e = readdir(dir)))
		*ret = template_is_version(e->d_name) && take_version(b, e->d_name);
	if (dir)
		(void)closedir(dir);
	return *ret ? set_current(b, err) : 0;
}

static int compute_digests(struct build *b, const char *base_root_version, struct err *err)
{
	_cleanup_free_ char *script = fs_join(b->share.templates, "build-rootfs");
	_cleanup_free_ char *config = fs_join(b->share.templates, "host_config.py");
	_cleanup_free_ char *dpkg = fs_join(b->share.templates, "dpkg.cfg");
	struct digest root, all;
	int r;

	digest_init(&root);
	digest_text(&root, base_root_version ? base_root_version : "none");
	digest_text(&root, b->options->mirror ? b->options->mirror : "");
	digest_text(&root, b->options->security_mirror ? b->options->security_mirror : "");
	r = digest_tree(&root, b->def->dir, err);
	if (r == 0)
		r = digest_tree(&root, script, err);
	if (r == 0)
		r = digest_tree(&root, config, err);
	if (r == 0)
		r = digest_tree(&root, dpkg, err);
	if (r < 0)
		return r;
	digest_final(&root, b->root_version);

	digest_init(&all);
	digest_text(&all, b->root_version);
	digest_number(&all, TEMPLATE_FORMAT);
	digest_text(&all, b->engine.name);
	digest_text(&all, b->engine.version);
	digest_text(&all, accel_name(b->engine.accel));
	digest_text(&all, b->ops->cpu_models[b->engine.accel]);
	if (engine_require(&b->engine, "network", NULL) < 0)
		digest_text(&all, "no network card");
	r = digest_tree(&all, b->share.agent, err);
	if (r == 0 && b->def->kernel)
		r = digest_tree(&all, b->share.runtime, err);
	if (r == 0)
		digest_final(&all, b->sources);
	return r;
}

/* Whoever had the lock may have removed the template, and the file with it. */
static bool is_at(int fd, const char *path)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_dev == there.st_dev &&
		ours.st_ino == there.st_ino;
}

/* One at a time: waits for the end of another build. */
static int lock_dir(struct build *b, struct err *err)
{
	_cleanup_free_ char *lock = fs_join(b->dir, ".lock");

	while (b->lock_fd < 0) {
		int r = fs_mkdirs(b->dir, 0755, err);

		if (r < 0)
			return r;
		b->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (b->lock_fd < 0)
			return err_set_errno(err, -errno, "can't open %s", lock);
		if (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0) {
			progress_step(b->progress, "Waiting for another build of this template");
			if (flock(b->lock_fd, LOCK_EX) < 0)
				return err_set_errno(err, -errno, "can't lock %s", lock);
		}
		if (!is_at(b->lock_fd, lock))
			(void)close(steal_fd(&b->lock_fd));
	}
	return 0;
}

static int open_dir(struct build *b, struct err *err)
{
	_cleanup_free_ char *log = NULL;
	int r;

	b->dir = fs_join(template_set_dir(b->set), b->def->name);
	b->work = fs_join(b->dir, ".build");
	b->root = fs_join(b->dir, "root");
	log = fs_join(b->dir, "build.log");
	r = lock_dir(b, err);
	if (r < 0)
		return r;
	b->log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	if (b->log_fd < 0)
		return err_set_errno(err, -errno, "can't write %s", log);
	return 0;
}

static int load_definition(struct build *b, const char *definition, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	int r;

	dir = strchr(definition, '/') ? realpath(definition, NULL)
				      : fs_join(b->share.templates, definition);
	if (!dir || access(dir, R_OK) < 0 ||
		(!strchr(definition, '/') && !template_name_ok(definition)))
		return err_set(err, ERR_TEMPLATE_NOT_FOUND, -ENOENT,
			"there is no template definition %s: give base, code-interpreter, "
			"or the path of a folder with a template.json",
			definition);
	r = definition_load(dir, &b->def, err);
	if (r == 0 && !strchr(definition, '/') && strcmp(b->def->name, definition) != 0)
		r = err_set(err, ERR_INVALID, -EINVAL, "%s/template.json names %s", dir,
			b->def->name);
	return r;
}

/* Takes away what a build left that died, its machine included, and makes the folder. */
static int clear_work(struct build *b, struct err *err)
{
	_cleanup_free_ char *vm_dir = work_vm_dir(b);
	int r;

	b->ops->kill_left(vm_dir);
	r = fs_remove_tree(b->work, err);
	return r < 0 ? r : fs_mkdirs(b->work, 0755, err);
}

static int build_one(const struct build_options *options, struct template_set *set,
	const char *definition, bool as_base, char ret_root_version[DIGEST_TEXT_SIZE],
	struct err *err)
{
	CLEANUP(build_done)
	struct build b = {.options = options, .set = set, .lock_fd = -1, .log_fd = -1};
	char base_version[DIGEST_TEXT_SIZE];
	_cleanup_free_ char *base_tar = NULL;
	bool force, made = false;
	int r = share_find(&b.share, err);

	if (r == 0)
		r = load_definition(&b, definition, err);
	if (r == 0)
		r = engine_pick(options->engine, &b.ops, &b.engine, err);
	if (r == 0 && b.def->from) {
		r = build_one(options, set, b.def->from, true, base_version, err);
		if (asprintf(&base_tar, "%s/%s/root/rootfs.tar.zst", template_set_dir(set),
			    b.def->from) < 0)
			abort();
	}
	if (r < 0)
		return r;
	b.progress = progress_new();
	r = open_dir(&b, err);
	if (r == 0)
		r = compute_digests(&b, b.def->from ? base_version : NULL, err);
	if (r < 0)
		return r;
	memcpy(ret_root_version, b.root_version, DIGEST_TEXT_SIZE);
	b.keep_tar = as_base || !b.def->from;
	force = options->force && !as_base;
	if (!force)
		r = find_made(&b, &made, err);
	if (r < 0 || (made && (!as_base || root_is_current(&b))))
		return r;
	(void)fprintf(stderr, "Building template %s (engine %s, %s: %s)\n", b.def->name,
		b.engine.name, accel_name(b.engine.accel), b.engine.why);
	r = clear_work(&b, err);
	if (r == 0 && (force || !root_is_current(&b)))
		r = make_root(&b, base_tar, err);
	if (r == 0 && !made) {
		name_version(&b);
		r = bake(&b, err);
		if (r == 0)
			r = publish(&b, err);
	}
	if (r == 0)
		progress_done(b.progress);
	return r;
}

int build_template(const struct build_options *options, struct err *err)
{
	char root_version[DIGEST_TEXT_SIZE];
	struct template_set *set = NULL;
	int r = template_set_new(options->template_dir, &set, err);

	if (r == 0)
		r = build_one(options, set, options->definition, false, root_version, err);
	template_set_free(set);
	return r;
}
