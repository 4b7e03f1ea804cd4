/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large values of a cell's events: the runtime sends them as plain bytes ahead of the event that they
 * belong to, so that neither side has to escape and parse megabytes of JSON (api/link.md, "A cell").
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/limits.h"

struct event_body {
	struct buf bytes;
	bool lost; /* more came than LIMIT_EVENT_BYTES: the event will be dropped */
};

static inline struct event_body event_body_init(void)
{
	return (struct event_body){.bytes = buf_init(LIMIT_EVENT_BYTES)};
}

void event_body_done(struct event_body *b);

/* DATA of LINK_CH_BODY. */
void event_body_push(struct event_body *b, const void *data, size_t len);

/*
 * The EVENT behind it: puts the bytes into its "data" as its "body" says ({mime: bytes}, in order), as
 * text with U+FFFD for what is no UTF-8. An event whose bytes are not all there becomes {"type":"dropped"}.
 */
void event_body_merge(struct event_body *b, json_t *event);
