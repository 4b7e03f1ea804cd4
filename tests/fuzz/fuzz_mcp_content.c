/* SPDX-License-Identifier: Apache-2.0 */
/* A letter, then what came from a guest: the answer of a cell or of a command (an object), or a file. All of it can be sent. */
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "mcp/content.h"

/* A path's address leads back to it. */
static void check_uri(const char *data, size_t len)
{
	_cleanup_free_ char *name = strndup(data, len);
	_cleanup_free_ char *uri = NULL, *id = NULL, *path = NULL;

	if (*name != '/' || !str_is_utf8(name, strlen(name)))
		return;
	uri = mcp_file_uri("id", name);
	if (mcp_file_uri_parse(uri, &id, &path) < 0 || strcmp(id, "id") != 0 ||
		strcmp(path, name) != 0)
		__builtin_trap();
}

static bool make(char kind, const char *data, size_t len, struct mcp_content *ret)
{
	json_t *answer;

	if (kind == 'f') {
		check_uri(data, len);
		*ret = mcp_content_file("id", "/path", data, len);
		return true;
	}
	answer = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(answer)) {
		json_decref(answer);
		return false;
	}
	*ret = kind == 'c' ? mcp_content_cell(answer, "id") : mcp_content_command(answer);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mcp_content content;
	json_t *result;
	char *text;

	if (size == 0 || !make((char)data[0], (const char *)data + 1, size - 1, &content))
		return 0;
	result = mcp_content_result(&content);
	text = json_dumps(result, JSON_ENSURE_ASCII);
	if (!text || json_array_size(json_object_get(result, "content")) == 0)
		__builtin_trap();
	free(text);
	json_decref(result);
	return 0;
}
