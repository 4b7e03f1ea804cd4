/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first boot of a template, and its capture.
 *
 * Theory of operation
 * -------------------
 * The machine boots with its memory in a shared file. When the agent answers, the kernel runtime is
 * written into the guest over the link (so that a change of the runtime needs no new root file system),
 * started and warmed. Then the link is idle: no frame is under way, which is what lets a restored machine
 * begin a new generation without padding. The vCPUs are stopped, the device state is saved, the process
 * is killed; what it had in memory is the file.
 */
#include "bake/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bake/cancel.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/spawn.h"
#include "link/link.h"

enum {
	BOOT_TIMEOUT_MS =
		120000, /* software emulation takes 3 s, on a busy machine 30; a hung one is tried again */
	WARM_TIMEOUT_MS = 600000, /* imports of everything, in software emulation */
	WRITE_TIMEOUT_MS = 30000,
	RUNTIME_FILE_MAX = 1 << 20,
	DEATH_NOTICE_MS = 1000,
};

#define GUEST_RUNTIME_DIR "/usr/lib/pandastack/runtime/pandastack_kernel"

/* The machine that is being baked. */
struct bake_vm {
	struct vm *vm;
	struct link_hub *hub;
	struct link *link;
};

static void bake_vm_done(struct bake_vm *b)
{
	cancel_track(-1);
	if (b->link)
		link_fail(b->link, "the bake is over");
	link_unref(b->link);
	if (b->vm)
		vm_kill(b->vm);
	vm_free(b->vm);
	link_hub_free(b->hub);
}

static int put_file(struct link *link, const char *guest_path, const char *data, size_t len,
	struct err *err)
{
	_cleanup_stream_ struct link_stream *s = NULL;
	int64_t deadline = clock_mono_ms() + WRITE_TIMEOUT_MS;
	int r = link_open(link, json_pack("{s:s, s:s}", "op", "write", "path", guest_path), &s,
		err);

	if (r == 0)
		r = link_send(s, data, len, deadline, -1, err);
	if (r == 0)
		r = link_end(s, err);
	while (r == 0) {
		struct link_event ev;

		r = link_next(s, &ev, deadline, -1, err);
		if (r == 0)
			return err_set(err, ERR_TIMEOUT, -ETIMEDOUT, "the guest took no file");
		if (r < 0)
			return r;
		r = ev.type == LINK_CLOSE ? 1 : 0;
		link_event_done(s, &ev);
	}
	return r > 0 ? 0 : r;
}

static int put_runtime(struct link *link, const char *runtime_dir, struct err *err)
{
	_cleanup_free_ char *package = fs_join(runtime_dir, "pandastack_kernel");
	DIR *dir = opendir(package);
	struct dirent *e;
	int r = 0;

	if (!dir)
		return err_set_errno(err, -errno, "can't read the kernel runtime in %s", package);
	while (r == 0 && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(package, e->d_name), *data = NULL;
		const char *dot = strrchr(e->d_name, '.');
		bool ours = dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".mjs") == 0);
		char guest_path[400];
		size_t len;

		if (!ours)
			continue;
		(void)snprintf(guest_path, sizeof(guest_path), GUEST_RUNTIME_DIR "/%s", e->d_name);
		r = fs_read(path, RUNTIME_FILE_MAX, &data, &len, err);
		if (r == 0)
			r = put_file(link, guest_path, data, len, err);
	}
	(void)closedir(dir);
	return r;
}

static json_t *first_resume(void)
{
	uint8_t entropy[64];
	char text[sodium_base64_ENCODED_LEN(sizeof(entropy), sodium_base64_VARIANT_ORIGINAL)];

	randombytes_buf(entropy, sizeof(entropy));
	(void)sodium_bin2base64(text, sizeof(text), entropy, sizeof(entropy),
		sodium_base64_VARIANT_ORIGINAL);
	return json_pack("{s:s, s:I, s:s, s:s, s:s, s:{}}", "op", "resume", "time_ns",
		(json_int_t)clock_real_ns(), "entropy", text, "hostname", "template", "machine_id",
		"00000000000000000000000000000000", "env");
}

/* After a failed call to the guest: says why the machine ended, when it did. */
static int explain(struct bake_vm *b, const struct engine_ops *ops, struct err *err)
{
	char why[256];

	if (!spawn_ended(b->vm->pidfd, DEATH_NOTICE_MS))
		return err->os;
	vm_reap(b->vm);
	ops->why_dead(b->vm, why, sizeof(why));
	return err_set(err, ERR_ENGINE, -EIO, "the machine ended: %s", why);
}

/* Starts the machine and waits for its agent. */
static int boot(const struct snapshot_job *job, struct bake_vm *b, struct err *err)
{
	const struct vm_spec spec = {.image = job->image, .dir = job->work_dir, .cold = true};
	int r = link_hub_new(&b->hub, err);

	if (r == 0)
		r = job->ops->start(&spec, &b->vm, err);
	if (r < 0)
		return r;
	cancel_track(b->vm->pidfd);
	r = link_new(b->hub, vm_take_link(b->vm), false, &b->link, err);
	if (r == 0)
		r = link_call(b->link, first_resume(), BOOT_TIMEOUT_MS, -1, NULL, err);
	return r < 0 ? explain(b, job->ops, err) : 0;
}

static int warm(const struct snapshot_job *job, struct bake_vm *b, struct snapshot_facts *facts,
	struct err *err)
{
	json_t *answer = NULL, *languages;
	int r;

	if (!job->runtime_dir)
		return 0;
	progress_step(job->progress, "Warming the kernel (imports, first plot, first table)");
	r = put_runtime(b->link, job->runtime_dir, err);
	if (r == 0)
		r = link_call(b->link, json_pack("{s:s}", "op", "warm"), WARM_TIMEOUT_MS, -1,
			&answer, err);
	languages = json_object_get(answer, "languages");
	if (json_is_array(languages))
		facts->languages = json_incref(languages);
	json_decref(answer);
	return r < 0 ? explain(b, job->ops, err) : 0;
}

static int capture(const struct snapshot_job *job, struct bake_vm *b, struct err *err)
{
	_cleanup_free_ char *devices = fs_join(job->image->dir, "devices");
	_cleanup_free_ char *disk = fs_join(job->work_dir, "scratch.ext4");
	_cleanup_free_ char *disk_out = fs_join(job->image->dir, "scratch.ext4");
	int r;

	progress_step(job->progress, "Capturing memory and devices");
	r = job->ops->pause(b->vm, err);
	if (r == 0)
		r = job->ops->save_devices(b->vm, devices, err);
	if (r < 0)
		return r;
	vm_kill(b->vm);
	if (rename(disk, disk_out) < 0)
		return err_set_errno(err, -errno, "can't move %s", disk);
	return 0;
}

static int attempt(const struct snapshot_job *job, struct snapshot_facts *facts, struct err *err)
{
	CLEANUP(bake_vm_done) struct bake_vm b = {0};
	int r;

	progress_step(job->progress, "Booting the machine for the first time");
	r = boot(job, &b, err);
	if (r == 0)
		r = warm(job, &b, facts, err);
	if (r == 0)
		r = capture(job, &b, err);
	return r;
}

/* The folder of the vm: emptied, with a fresh copy of the empty disk. */
static int prepare(const struct snapshot_job *job, const char *empty_disk, struct err *err)
{
	_cleanup_free_ char *disk = fs_join(job->work_dir, "scratch.ext4");
	_cleanup_free_ char *memory = fs_join(job->image->dir, "memory");
	int r = fs_remove_tree(job->work_dir, err);

	if (r == 0)
		r = fs_mkdirs(job->work_dir, 0700, err);
	if (r == 0)
		r = fs_remove_tree(memory, err);
	return r < 0 ? r : fs_clone(empty_disk, disk, 0600, err);
}

int snapshot_take(const struct snapshot_job *job, struct snapshot_facts *ret, struct err *err)
{
	_cleanup_free_ char *empty_disk = fs_join(job->image->dir, "empty.ext4");
	int r = 0;

	for (int i = 0; i < 2; i++) {
		r = prepare(job, empty_disk, err);
		if (r < 0)
			return r;
		r = attempt(job, ret, err);
		if (r != -ETIMEDOUT || cancel_requested())
			break;
		log_warn("the first boot hung", LOG_STR("error", err_msg(err)));
	}
	if (r == 0)
		r = fs_remove_tree(empty_disk, err);
	return r;
}
