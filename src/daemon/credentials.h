/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which clients find the address and the key: {"api_url", "api_key", …}.
 *
 * Other members of the file are kept. A file whose key is not one of ours belongs to another
 * service and is left alone.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "http/auth.h"

/*
 * Brings the file up to date, making a key where it has none. 0, or 1 when a key was made; -EEXIST
 * (ERR_CONFLICT) when the file is another service's; another errno when it can't be read or
 * written.
 */
int credentials_update(const char *path, const char *api_url, struct auth *auth, struct err *err);
