/* SPDX-License-Identifier: Apache-2.0 */
/* What every command that lists something does at its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/client.h"
#include "cli/table.h"

/* Prints the array that GET of `path` gives: the API's own JSON, or a table of these columns. */
int list_print(struct client *client, const char *path, const struct table_column *columns,
	size_t n_columns, bool json, struct err *err);
