/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Baked templates on disk: finding, reading and checking them.
 *
 * <templates>/<name>/current → <version>, and in <version>/: manifest.json, rootfs.ext4, scratch.ext4,
 * kernel, initrd, memory, devices. A version's folder is never changed after it was renamed into place.
 * bake/build.h makes them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

enum { TEMPLATE_NAME_MAX = 63 };

/* The format of manifests and of what lies beside them, and what bakes them: a template of another
 * format is refused with the advice to build it again. */
enum { TEMPLATE_FORMAT = 5 };

/* clang-format off: it takes the word for C++'s. */
struct template
{
	/* clang-format on */
	char *name;
	char *version; /* random: stands for one memory */
	char *sources; /* hex digest of all that went into it; NULL: not known */
	char *description;
	char *engine;         /* name of the engine that baked it */
	char *engine_version; /* device states are good for one version only */
	char *kernel;         /* language of its warm kernel, or NULL */
	json_t *network;      /* what sandboxes get that ask for none, or NULL: see egress.h */
	json_t *languages; /* array of names: what sessions can be opened in; empty without a kernel */
	uint64_t size_bytes; /* what it takes on the disk */
	uint64_t disk_bytes; /* size of the writable disk */
	int64_t built_ms;
	struct machine_image image;
};

struct template *template_free(struct template *t);
DEFINE_CLEANUP(struct template *, template_free)
#define _cleanup_template_ CLEANUP(template_freep)

struct template_set;
int template_set_new(const char *dir, struct template_set **ret, struct err *err);
struct template_set *template_set_free(struct template_set *set);
/* The folder, absolute; borrowed. */
const char *template_set_dir(const struct template_set *set);

/* Lower-case letters, digits, '-', '_', '.'; a letter or digit first; 1 to TEMPLATE_NAME_MAX bytes. */
bool template_name_ok(const char *name);

/*
 * Reads a template by name or alias ("ubuntu-24.04", "code-interpreter-v1" …). ERR_TEMPLATE_UNKNOWN
 * names those that exist; ERR_TEMPLATE_STALE says which command bakes it again.
 */
int template_load(struct template_set *set, const char *name, struct template **ret,
	struct err *err);

/* The same by name only: ERR_TEMPLATE_NOT_FOUND. */
int template_get(struct template_set *set, const char *name, struct template **ret,
	struct err *err);

/* That version of it, which need not be the current one. ERR_TEMPLATE_STALE when it is no more. */
int template_load_version(struct template_set *set, const char *name, const char *version,
	struct template **ret, struct err *err);

/*
 * Snapshots and sandboxes hold the version that they stand on: <templates>/<name>/refs/<version>/<id> is a symbolic link to
 * their folder, and counts as long as that is there. So whoever builds or removes templates can see it without
 * asking a daemon. ERR_TEMPLATE_STALE when that version is no more.
 */
int template_hold(struct template_set *set, const char *name, const char *version, const char *id,
	const char *target, struct err *err);
void template_release(struct template_set *set, const char *name, const char *version,
	const char *id);
/* Removes a version that nobody holds: 0, or -EBUSY, *err untouched. */
int template_drop(const char *template_dir, const char *version, struct err *err);

/* Whether a folder of that name in a template's is a version. */
bool template_is_version(const char *name);

/*
 * Whether that engine, here, can run what the template holds: 0, or -ESTALE (ERR_TEMPLATE_STALE) with the
 * difference and the command that bakes it again.
 */
int template_check_engine(const struct template *t, const struct engine_info *engine,
	struct err *err);

/* All that can be read, by name; the caller frees each and the array. */
int template_list(struct template_set *set, struct template ***ret, size_t *ret_n, struct err *err);

/*
 * Removes it. ERR_TEMPLATE_NOT_FOUND; -EBUSY (ERR_CONFLICT) while it is being built or somebody stands on it. With
 * `force` the latter keep their versions, which have no name any more and go with the next sweep after the last of them;
 * *ret_kept is what these take on the disk.
 */
int template_remove(struct template_set *set, const char *name, bool force, uint64_t *ret_kept,
	struct err *err);

/* Removes versions that are neither current nor held, and references of holders that are gone. */
struct template_sweep {
	void (*removed)(const char *name, const char *version, uint64_t bytes, void *user);
	void *user;
};
int template_sweep(struct template_set *set, const struct template_sweep *sweep, struct err *err);
