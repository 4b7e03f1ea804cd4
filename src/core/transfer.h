/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that go to another machine and come from one, as one stream (state_file.h). */
#pragma once

#include "core/snapshot.h"
#include "core/state_file.h"

/* For state_writer_read(), from then on independent of the snapshot. */
int core_export_snapshot(struct core *core, struct snapshot *s, struct state_writer **ret,
	struct err *err);

struct snapshot_import;

struct snapshot_import *snapshot_import_new(struct core *core);
/* Also removes what was written, unless it has become a snapshot. */
struct snapshot_import *snapshot_import_free(struct snapshot_import *import);

/* The next bytes. After a failure only snapshot_import_free(): -EBADMSG (ERR_INVALID) for a file that is damaged, ERR_CONFLICT
 * or ERR_TEMPLATE_STALE for one that can't be used here. */
int snapshot_import_feed(struct snapshot_import *import, const void *data, size_t len,
	struct err *err);
/* All were there: makes it a snapshot, with an id of its own. */
int snapshot_import_finish(struct snapshot_import *import, struct snapshot **ret, struct err *err);
