/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the API shows it, and the metadata that clients give, for the routes that have them. */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "core/core.h"

/* NULL without memory. */
json_t *sandbox_json(struct sandbox *sb);

/* Member `metadata` of a request: a map of strings within the limits, or NULL. */
int read_metadata(const json_t *body, json_t **ret, struct err *err);
