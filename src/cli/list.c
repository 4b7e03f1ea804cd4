/* SPDX-License-Identifier: Apache-2.0 */
/* What the API lists, asked for and printed. */
#include "cli/list.h"

int list_print(struct client *client, const char *path, const struct table_column *columns,
	size_t n_columns, bool json, struct err *err)
{
	json_t *list = NULL;
	int r = client_json(client, "GET", path, NULL, &list, err);

	if (r == 0 && json)
		r = client_print_json(list, JSON_INDENT(2), err);
	else if (r == 0)
		table_print(stdout, table_style_of(stdout), list, columns, n_columns);
	json_decref(list);
	return r;
}
