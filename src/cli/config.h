/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the daemon is and with which key: PANDASTACK_API and PANDASTACK_API_KEY, else
 * pandastack/config.json below $XDG_CONFIG_HOME or ~/.config, which the daemon writes.
 */
#pragma once

#include "base/err.h"

struct config {
	char *api; /* owned; scheme, host and port, without "/v1" and without a slash at the end */
	char *key; /* owned; NULL where there is none */
};

int config_load(struct config *ret, struct err *err);

void config_done(struct config *config);
#define _cleanup_config_ CLEANUP(config_done)
