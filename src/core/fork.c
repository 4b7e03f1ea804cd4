/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks: a machine captured once, and children restored from that at once.
 *
 * The state lies in a folder of <data>/forks for as long as it takes; it is neither hashed nor brought to the disk.
 * Children of a large state would each hold a copy of all its pages. Where these copies together are more than the memory
 * that they stand on, a copy of that is made with the state in it, which they map and share until they write. The parent
 * keeps it (`shared` in its folder): of its next forks only what differs from that is copied. So it is made for a few
 * children, too, in the hope of more; then they do without it where the disk has no room.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/core_internal.h"
#include "core/state_dir.h"

enum {
	THREADS = 4,
	/* Who forks a sandbox once does it again. */
	LIKELY_CHILDREN = 4,
};

struct forking {
	struct core *core;
	struct sandbox *parent;
	const json_t *network; /* the parent's policy */
	const struct fork_spec *spec;
	const struct sandbox_source *source;
	struct fork_result *result;
	atomic_uint next; /* the first child that no thread has taken */
};

void fork_result_done(struct fork_result *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->children); i++)
		r->children[i] = sandbox_unref(r->children[i]);
}

/* The parent's, under the client's, under what tells the children of a tree apart. */
static json_t *child_metadata(const struct forking *f, unsigned int i)
{
	static const char *const of_tree[] = {"fork_tree_id", "fork_parent_id", "fork_index"};
	json_t *metadata = sandbox_metadata(f->parent);
	char index[12];

	/* A child of one in a tree is not in that tree: a promotion must not end it. */
	for (size_t k = 0; k < ARRAY_SIZE(of_tree); k++)
		(void)json_object_del(metadata, of_tree[k]);
	if (f->spec->metadata)
		(void)json_object_update(metadata, (json_t *)(uintptr_t)f->spec->metadata);
	if (f->spec->tree) {
		(void)snprintf(index, sizeof(index), "%u", i);
		(void)json_object_set_new(metadata, "fork_tree_id", json_string(f->result->id));
		(void)json_object_set_new(metadata, "fork_parent_id", json_string(f->parent->id));
		(void)json_object_set_new(metadata, "fork_index", json_string(index));
	}
	return metadata;
}

/* Forks of forks add up. What tells the children of a tree apart comes on top, and does not. */
static int check_metadata(struct sandbox *parent, const struct fork_spec *spec, struct err *err)
{
	const struct fork_spec no_tree = {.metadata = spec->metadata};
	const struct forking f = {.parent = parent, .spec = &no_tree};
	json_t *metadata = child_metadata(&f, 0);
	size_t entries = json_object_size(metadata);

	json_decref(metadata);
	if (entries > LIMIT_METADATA_ENTRIES)
		return err_set(err, ERR_INVALID, -E2BIG,
			"with its parent's, a child would have %zu metadata entries; the limit is %d",
			entries, LIMIT_METADATA_ENTRIES);
	return 0;
}

static void make_child(const struct forking *f, unsigned int i)
{
	json_t *metadata = child_metadata(f, i);
	const struct sandbox_spec spec = {
		.metadata = metadata,
		.env = f->parent->env,
		.network = f->network,
		.ttl_seconds = atomic_load(&f->parent->ttl_seconds),
		.idle_seconds = atomic_load(&f->parent->idle_seconds),
		.persistent = atomic_load(&f->parent->persistent),
		.parent = f->parent->id,
	};
	struct sandbox *sb =
		sandbox_new(f->core, f->core->data_dir, f->source->t, &spec, &f->core->engine);
	struct sandbox *same; /* only for creates with a key */

	json_decref(metadata);
	if (core_launch(f->core, sb, f->source, &same, &f->result->errors[i]) == 0) {
		f->result->children[i] = sb;
		sandbox_event(sb, "sandbox.forked",
			json_pack("{s:s, s:s}", "parent", f->parent->id, "fork_id", f->result->id));
	} else {
		sandbox_unref(sb);
		sandbox_event(f->parent, "fork.child_failed",
			json_pack("{s:s, s:i, s:s}", "fork_id", f->result->id, "index", (int)i,
				"error", err_msg(&f->result->errors[i])));
	}
	fault_point("fork.child");
}

static void *make_some(void *arg)
{
	struct forking *f = arg;
	unsigned int i;

	while ((i = atomic_fetch_add(&f->next, 1)) < f->spec->count)
		make_child(f, i);
	return NULL;
}

static void make_all(struct forking *f)
{
	pthread_t threads[THREADS];
	unsigned int n = 0;

	/* This thread works too, and alone where there can be no other. */
	while (n + 1 < MIN(f->spec->count, (unsigned int)THREADS) &&
		pthread_create(&threads[n], NULL, make_some, f) == 0)
		n++;
	(void)make_some(f);
	while (n > 0)
		(void)pthread_join(threads[--n], NULL);
}

/* All or none, unless some are enough. */
static int settle(struct core *core, const struct fork_spec *spec, struct fork_result *result,
	struct err *err)
{
	unsigned int made = 0;
	int r = 0;

	for (unsigned int i = 0; i < spec->count; i++) {
		if (result->children[i])
			made++;
		else if (r == 0) {
			*err = result->errors[i];
			r = err->os;
		}
	}
	if (r == 0 || (spec->allow_partial && made > 0))
		return 0;
	for (unsigned int i = 0; i < spec->count; i++) {
		if (result->children[i])
			(void)core_delete(core, result->children[i],
				NULL); /* always ends with it gone */
	}
	fork_result_done(result);
	return r;
}

/*
 * Makes one memory of the state, for all children and for later forks of the parent. These need not know of what time it
 * is: a page that the parent had written then is one that it has written now, and so is compared.
 */
static int make_shared(struct sandbox *parent, const struct template *t, const char *dir,
	const char *shared, struct err *err)
{
	_cleanup_free_ char *base = fs_join(t->image.dir, "memory");
	_cleanup_free_ char *memory = fs_join(dir, "memory"), *name = fs_join(dir, "shared");
	int r = state_flatten(dir, base, parent->memory_bytes, err);
	enum sandbox_state state;

	if (r < 0)
		return r;
	fault_point("fork.flattened");
	pthread_mutex_lock(&parent->op); /* nobody captures it, or begins to delete it */
	state = sandbox_state_of(parent);
	/* Without it the next fork makes its own. */
	if (state != SANDBOX_STOPPING && state != SANDBOX_DELETED &&
		(link(memory, name) < 0 || rename(name, shared) < 0))
		log_warn("the memory of a fork is not kept", LOG_STR("sandbox", parent->id),
			LOG_INT("errno", errno));
	pthread_mutex_unlock(&parent->op);
	return 0;
}

static int share_if_large(struct sandbox *parent, const struct template *t, const char *dir,
	const char *shared, uint64_t delta_bytes, unsigned int count, struct err *err)
{
	_cleanup_free_ char *base = fs_join(t->image.dir, "memory");
	uint64_t base_bytes = fs_disk_usage(base);
	int r;

	if (delta_bytes * MAX(count, (unsigned int)LIKELY_CHILDREN) <= base_bytes)
		return 0;
	r = make_shared(parent, t, dir, shared, err);
	if ((r != -ENOSPC && r != -EDQUOT) || delta_bytes * count > base_bytes)
		return r;
	log_warn("no room for a memory that forks share", LOG_STR("sandbox", parent->id),
		LOG_STR("error", err_msg(err)));
	return 0;
}

void fork_forget_shared(const struct sandbox *parent)
{
	_cleanup_free_ char *shared = fs_join(parent->dir, "shared");

	(void)unlink(shared); /* few have one */
}

static int fork_from(struct core *core, struct sandbox *sb, const struct fork_spec *spec,
	const char *dir, struct fork_result *ret, struct err *err)
{
	_cleanup_template_ struct template *t = NULL;
	_cleanup_free_ char *shared = fs_join(sb->dir, "shared");
	const struct capture_spec capture = {.dir = dir, .base = shared, .use = CAPTURE_FORK};
	struct capture_stats stats = {0};
	struct sandbox_source source;
	json_t *network;
	struct forking f = {.core = core,
		.parent = sb,
		.spec = spec,
		.source = &source,
		.result = ret};
	int r = check_metadata(sb, spec, err);

	if (r == 0)
		r = core_load_template(core, sb->template, sb->version, &t, err);
	if (r == 0)
		r = core_capture(core, sb, &capture, &stats, err);
	if (r < 0)
		return r;
	ret->pause_us = stats.pause_us;
	ret->delta_bytes = stats.delta_bytes;
	r = share_if_large(sb, t, dir, shared, stats.delta_bytes, spec->count, err);
	if (r < 0)
		return r;
	fault_point("fork.captured");
	sandbox_event(sb, "fork.staged",
		json_pack("{s:s, s:i, s:f, s:I}", "fork_id", ret->id, "count", (int)spec->count,
			"pause_ms", (double)ret->pause_us / 1000, "delta_bytes",
			(json_int_t)ret->delta_bytes));
	source = (struct sandbox_source){.t = t, .state_dir = dir};
	f.network = network = sandbox_network(sb, NULL);
	make_all(&f);
	json_decref(network);
	fault_point("fork.made");
	return settle(core, spec, ret, err);
}

static void tell_completed(struct sandbox *sb, const struct fork_spec *spec,
	const struct fork_result *result)
{
	json_t *children = json_array();

	for (unsigned int i = 0; i < spec->count; i++) {
		if (result->children[i])
			(void)json_array_append_new(children, json_string(result->children[i]->id));
	}
	sandbox_event(sb, spec->tree ? "fork_tree.completed" : "fork.completed",
		json_pack("{s:s, s:i, s:o}", spec->tree ? "tree_id" : "fork_id", result->id,
			"requested", (int)spec->count, "children", children));
}

int core_fork(struct core *core, struct sandbox *sb, const struct fork_spec *spec,
	struct fork_result *ret, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	int64_t start = clock_mono_ms();
	int r;

	assert(spec->count >= 1 && spec->count <= FORK_CHILDREN_MAX);
	*ret = (struct fork_result){0};
	core_make_id(ret->id);
	if (asprintf(&dir, "%s/forks/%s", core->data_dir, ret->id) < 0)
		abort();
	pthread_rwlock_rdlock(&core->captures);
	r = fork_from(core, sb, spec, dir, ret, err);
	(void)fs_remove_tree(dir, NULL); /* best effort: the next start does it */
	pthread_rwlock_unlock(&core->captures);
	if (r < 0) {
		log_warn("no fork", LOG_STR("sandbox", sb->id), LOG_STR("error", err_msg(err)));
		return r;
	}
	log_info("sandbox forked", LOG_STR("sandbox", sb->id), LOG_INT("children", spec->count),
		LOG_INT("pause_us", ret->pause_us),
		LOG_INT("delta_bytes", (int64_t)ret->delta_bytes),
		LOG_INT("took_ms", clock_mono_ms() - start));
	tell_completed(sb, spec, ret);
	return 0;
}
