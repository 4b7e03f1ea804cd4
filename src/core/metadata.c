/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's metadata, changed while it lives. */
#include <errno.h>

#include "base/limits.h"
#include "core/core_internal.h"

json_t *sandbox_metadata(struct sandbox *sb)
{
	json_t *metadata;

	pthread_mutex_lock(&sb->lock);
	metadata = json_deep_copy(sb->metadata); /* a reader of its own may count references */
	pthread_mutex_unlock(&sb->lock);
	return metadata;
}

static void replace(struct sandbox *sb, json_t *metadata)
{
	json_t *old;

	pthread_mutex_lock(&sb->lock);
	old = sb->metadata;
	sb->metadata = metadata;
	pthread_mutex_unlock(&sb->lock);
	json_decref(old);
}

/* `op` is held. */
static int change(struct core *core, struct sandbox *sb, const char *key, const char *value,
	struct err *err)
{
	json_t *metadata = sandbox_metadata(sb);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (!value)
		(void)json_object_del(metadata, key); /* not there is as good */
	else if (json_object_set_new(metadata, key, json_string(value)) < 0)
		r = err_set(err, ERR_INVALID, -EILSEQ, "the metadata is not UTF-8");
	if (r == 0 && json_object_size(metadata) > LIMIT_METADATA_ENTRIES)
		r = err_set(err, ERR_TOO_MANY, -E2BIG,
			"the sandbox has %d metadata entries already, which is the limit",
			LIMIT_METADATA_ENTRIES);
	if (r == 0)
		text = json_dumps(metadata, JSON_COMPACT);
	if (r == 0 && !text)
		r = err_set(err, ERR_INTERNAL, -ENOMEM, "out of memory");
	if (r == 0)
		r = store_set_metadata(core->store, sb->id, text, err);
	if (r == 0)
		replace(sb, steal_ptr(&metadata));
	json_decref(metadata);
	return r;
}

int core_set_metadata(struct core *core, struct sandbox *sb, const char *key, const char *value,
	struct err *err)
{
	int r;

	sandbox_wait_created(sb);
	pthread_mutex_lock(&sb->op);
	r = change(core, sb, key, value, err);
	pthread_mutex_unlock(&sb->op);
	return r;
}
