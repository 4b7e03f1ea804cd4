/* SPDX-License-Identifier: Apache-2.0 */
/* A line for each header (version, method, name), then a message: what is taken is answered, or asks for a sandbox. */
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "mcp/content.h"
#include "mcp/methods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	_cleanup_free_ char *id = NULL, *path = NULL;
	struct mcp_headers headers = {0};
	struct mcp_message m;
	struct mcp_answer answer = {0};
	char *rest = text;

	headers.version = strsep(&rest, "\n");
	headers.method = strsep(&rest, "\n");
	headers.name = strsep(&rest, "\n");
	if (!rest)
		return 0;
	if (mcp_file_uri_parse(headers.name, &id, &path) == 0 && *path != '/')
		__builtin_trap();
	if (!*headers.version)
		headers.version = NULL;
	if (mcp_message_read(rest, strlen(rest), &headers, &m, &answer) < 0) {
		if (answer.status != 400 || !json_object_get(answer.body, "error"))
			__builtin_trap();
	} else {
		json_t *progress = mcp_progress(&m, 1, "");

		if (m.modern && !m.id)
			__builtin_trap();
		if (mcp_answer(&m, MCP_SCOPE_DAEMON, &answer) == MCP_DONE && m.id && !answer.body)
			__builtin_trap();
		json_decref(progress);
		mcp_message_done(&m);
	}
	json_decref(answer.body);
	return 0;
}
