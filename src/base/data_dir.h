/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon keeps its data when nobody says otherwise. */
#pragma once

#include "base/err.h"

/*
 * /var/lib/pandastack for root, else $XDG_DATA_HOME/pandastack or ~/.local/share/pandastack; absolute,
 * owned by the caller. Fails where there is no home (ERR_INVALID).
 */
int data_dir_default(char **ret, struct err *err);
